"""Ways to Apollo's channels: a node of cyber, cyber_bridge over TCP, a fake one."""
