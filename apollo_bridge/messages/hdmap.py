"""Apollo's map, `base_map.bin`: lanes, junctions, lights, signs, crosswalks."""

GEOMETRY = """
file modules/common_msgs/map_msgs/map_id.proto apollo.hdmap
message Id
  1 id string

file modules/common_msgs/map_msgs/map_geometry.proto apollo.hdmap
message Polygon
  1 point repeated common.PointENU
message LineSegment
  1 point repeated common.PointENU
message CurveSegment
  1 line_segment LineSegment in curve_type
  6 s double
  7 start_position common.PointENU
  8 heading double
  9 length double
message Curve
  1 segment repeated CurveSegment
"""

LANES = """
file modules/common_msgs/map_msgs/map_lane.proto apollo.hdmap
message LaneBoundary
  1 curve Curve
  2 length double
  3 virtual bool
message LaneSampleAssociation
  1 s double
  2 width double
message Lane
  1 id Id
  2 central_curve Curve
  3 left_boundary LaneBoundary
  4 right_boundary LaneBoundary
  5 length double
  6 speed_limit double
  7 overlap_id repeated Id
  8 predecessor_id repeated Id
  9 successor_id repeated Id
  10 left_neighbor_forward_lane_id repeated Id
  11 right_neighbor_forward_lane_id repeated Id
  12 type LaneType
  13 turn LaneTurn
  14 left_neighbor_reverse_lane_id repeated Id
  15 right_neighbor_reverse_lane_id repeated Id
  16 junction_id Id
  17 left_sample repeated LaneSampleAssociation
  18 right_sample repeated LaneSampleAssociation
  19 direction LaneDirection
enum Lane.LaneType NONE=1 CITY_DRIVING=2 BIKING=3 SIDEWALK=4 PARKING=5 SHOULDER=6
enum Lane.LaneTurn NO_TURN=1 LEFT_TURN=2 RIGHT_TURN=3 U_TURN=4
enum Lane.LaneDirection FORWARD=1 BACKWARD=2 BIDIRECTION=3

file modules/common_msgs/map_msgs/map_junction.proto apollo.hdmap
message Junction
  1 id Id
  2 polygon Polygon
  3 overlap_id repeated Id
  4 type Type
enum Junction.Type UNKNOWN=0 IN_ROAD=1 CROSS_ROAD=2 FORK_ROAD=3 MAIN_SIDE=4 DEAD_END=5

file modules/common_msgs/map_msgs/map_road.proto apollo.hdmap
message RoadSection
  1 id Id
  2 lane_id repeated Id
message Road
  1 id Id
  2 section repeated RoadSection
  3 junction_id Id
  4 type Type
enum Road.Type UNKNOWN=0 HIGHWAY=1 CITY_ROAD=2 PARK=3
"""

FURNITURE = """
file modules/common_msgs/map_msgs/map_signal.proto apollo.hdmap
message Subsignal
  1 id Id
  2 type Type
  3 location common.PointENU
enum Subsignal.Type UNKNOWN=1 CIRCLE=2 ARROW_LEFT=3 ARROW_FORWARD=4 ARROW_RIGHT=5 \
ARROW_LEFT_AND_FORWARD=6 ARROW_RIGHT_AND_FORWARD=7 ARROW_U_TURN=8
message Signal
  1 id Id
  2 boundary Polygon
  3 subsignal repeated Subsignal
  4 overlap_id repeated Id
  5 type Type
  6 stop_line repeated Curve
enum Signal.Type UNKNOWN=1 MIX_2_HORIZONTAL=2 MIX_2_VERTICAL=3 MIX_3_HORIZONTAL=4 \
MIX_3_VERTICAL=5 SINGLE=6

file modules/common_msgs/map_msgs/map_stop_sign.proto apollo.hdmap
message StopSign
  1 id Id
  2 stop_line repeated Curve
  3 overlap_id repeated Id
  4 type StopType
enum StopSign.StopType UNKNOWN=0 ONE_WAY=1 TWO_WAY=2 THREE_WAY=3 FOUR_WAY=4 ALL_WAY=5

file modules/common_msgs/map_msgs/map_yield_sign.proto apollo.hdmap
message YieldSign
  1 id Id
  2 stop_line repeated Curve
  3 overlap_id repeated Id

file modules/common_msgs/map_msgs/map_crosswalk.proto apollo.hdmap
message Crosswalk
  1 id Id
  2 polygon Polygon
  3 overlap_id repeated Id
"""

OVERLAPS = """
file modules/common_msgs/map_msgs/map_overlap.proto apollo.hdmap
message LaneOverlapInfo
  1 start_s double
  2 end_s double
  3 is_merge bool
message SignalOverlapInfo
message StopSignOverlapInfo
message CrosswalkOverlapInfo
message JunctionOverlapInfo
message YieldOverlapInfo
message ObjectOverlapInfo
  1 id Id
  3 lane_overlap_info LaneOverlapInfo in overlap_info
  4 signal_overlap_info SignalOverlapInfo in overlap_info
  5 stop_sign_overlap_info StopSignOverlapInfo in overlap_info
  6 crosswalk_overlap_info CrosswalkOverlapInfo in overlap_info
  7 junction_overlap_info JunctionOverlapInfo in overlap_info
  8 yield_sign_overlap_info YieldOverlapInfo in overlap_info
message Overlap
  1 id Id
  2 object repeated ObjectOverlapInfo

file modules/common_msgs/map_msgs/map.proto apollo.hdmap
message Projection
  1 proj string
message Header
  1 version bytes
  2 date bytes
  3 projection Projection
  4 district bytes
  8 left double
  9 top double
  10 right double
  11 bottom double
  12 vendor bytes
message Map
  1 header hdmap.Header
  2 crosswalk repeated Crosswalk
  3 junction repeated Junction
  4 lane repeated Lane
  5 stop_sign repeated StopSign
  6 signal repeated Signal
  7 yield repeated YieldSign
  8 overlap repeated Overlap
  11 road repeated Road
"""

TEXTS = (GEOMETRY, LANES, FURNITURE, OVERLAPS)
