"""Apollo's map: what it holds, and the road network that it makes."""
