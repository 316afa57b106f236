"""What Apollo says of itself: localization, chassis, perception, planning, routing.

Field numbers are those of Apollo 5 to 9; only the fields that the bridge reads, or
that the stand-in writes, are here. Protobuf keeps what it does not know.
"""

COMMON = """
file modules/common_msgs/basic_msgs/error_code.proto apollo.common
enum ErrorCode OK=0 CONTROL_ERROR=1000 CANBUS_ERROR=2000 LOCALIZATION_ERROR=3000
message StatusPb
  1 error_code ErrorCode = OK
  2 msg string

file modules/common_msgs/basic_msgs/header.proto apollo.common
message Header
  1 timestamp_sec double
  2 module_name string
  3 sequence_num uint32
  4 lidar_timestamp uint64
  5 camera_timestamp uint64
  6 radar_timestamp uint64
  7 version uint32 = 1
  8 status StatusPb
  9 frame_id string

file modules/common_msgs/basic_msgs/geometry.proto apollo.common
message PointENU
  1 x double = nan
  2 y double = nan
  3 z double = 0
message Point3D
  1 x double = nan
  2 y double = nan
  3 z double = nan
message Quaternion
  1 qx double = nan
  2 qy double = nan
  3 qz double = nan
  4 qw double = nan

file modules/common_msgs/basic_msgs/vehicle_signal.proto apollo.common
message VehicleSignal
  1 turn_signal TurnSignal
  2 high_beam bool
  3 low_beam bool
  4 horn bool
  5 emergency_light bool
enum VehicleSignal.TurnSignal TURN_NONE=0 TURN_LEFT=1 TURN_RIGHT=2 TURN_HAZARD_WARNING=3

file modules/common_msgs/basic_msgs/pnc_point.proto apollo.common
message PathPoint
  1 x double
  2 y double
  3 z double
  4 theta double
  5 kappa double
  6 s double
  9 lane_id string
message TrajectoryPoint
  1 path_point PathPoint
  2 v double
  3 a double
  4 relative_time double
"""

STATE = """
file modules/common_msgs/localization_msgs/pose.proto apollo.localization
message Pose
  1 position common.PointENU
  2 orientation common.Quaternion
  3 linear_velocity common.Point3D
  4 linear_acceleration common.Point3D
  5 angular_velocity common.Point3D
  6 heading double
  7 linear_acceleration_vrf common.Point3D
  8 angular_velocity_vrf common.Point3D
  9 euler_angles common.Point3D

file modules/common_msgs/localization_msgs/localization.proto apollo.localization
message LocalizationEstimate
  1 header common.Header
  2 pose Pose
  4 measurement_time double

file modules/common_msgs/chassis_msgs/chassis.proto apollo.canbus
message ChassisGPS
  3 gps_valid bool
  4 year int32
  5 month int32
  6 day int32
  7 hours int32
  8 minutes int32
  9 seconds int32
message Chassis
  3 engine_started bool
  5 speed_mps float = nan
  8 throttle_percentage float = nan
  9 brake_percentage float = nan
  11 steering_percentage float = nan
  13 parking_brake bool
  21 driving_mode DrivingMode = COMPLETE_MANUAL
  22 error_code ErrorCode = NO_ERROR
  23 gear_location GearPosition
  25 header common.Header
  27 signal common.VehicleSignal
  28 chassis_gps ChassisGPS
enum Chassis.DrivingMode COMPLETE_MANUAL=0 COMPLETE_AUTO_DRIVE=1 AUTO_STEER_ONLY=2 \
AUTO_SPEED_ONLY=3 EMERGENCY_MODE=4
enum Chassis.ErrorCode NO_ERROR=0 CMD_NOT_IN_PERIOD=1 CHASSIS_ERROR=2 \
MANUAL_INTERVENTION=3 CHASSIS_CAN_NOT_IN_PERIOD=4 UNKNOWN_ERROR=5 \
CHASSIS_ERROR_ON_STEER=6 CHASSIS_ERROR_ON_BRAKE=7 CHASSIS_ERROR_ON_THROTTLE=8 \
CHASSIS_ERROR_ON_GEAR=9
enum Chassis.GearPosition GEAR_NEUTRAL=0 GEAR_DRIVE=1 GEAR_REVERSE=2 GEAR_PARKING=3 \
GEAR_LOW=4 GEAR_INVALID=5 GEAR_NONE=6
"""

PERCEPTION = """
file modules/common_msgs/perception_msgs/perception_obstacle.proto apollo.perception
message PerceptionObstacle
  1 id int32
  2 position common.Point3D
  3 theta double
  4 velocity common.Point3D
  5 length double
  6 width double
  7 height double
  8 polygon_point repeated common.Point3D
  9 tracking_time double
  10 type Type
  11 timestamp double
  13 confidence double
  16 acceleration common.Point3D
  19 sub_type SubType
enum PerceptionObstacle.Type UNKNOWN=0 UNKNOWN_MOVABLE=1 UNKNOWN_UNMOVABLE=2 \
PEDESTRIAN=3 BICYCLE=4 VEHICLE=5
enum PerceptionObstacle.SubType ST_UNKNOWN=0 ST_UNKNOWN_MOVABLE=1 \
ST_UNKNOWN_UNMOVABLE=2 ST_CAR=3 ST_VAN=4 ST_TRUCK=5 ST_BUS=6 ST_CYCLIST=7 \
ST_MOTORCYCLIST=8 ST_TRICYCLIST=9 ST_PEDESTRIAN=10 ST_TRAFFICCONE=11
message PerceptionObstacles
  1 perception_obstacle repeated PerceptionObstacle
  2 header common.Header
  3 error_code common.ErrorCode = OK

file modules/common_msgs/perception_msgs/traffic_light_detection.proto apollo.perception
message TrafficLight
  1 color Color
  2 id string
  3 confidence double = 1
  4 tracking_time double
  5 blink bool
  6 remaining_time double
enum TrafficLight.Color UNKNOWN=0 RED=1 YELLOW=2 GREEN=3 BLACK=4
message TrafficLightDebug
  8 distance_to_stop_line double
message TrafficLightDetection
  1 traffic_light repeated TrafficLight
  2 header common.Header
  3 traffic_light_debug TrafficLightDebug
  4 contain_lights bool

file modules/common_msgs/prediction_msgs/feature.proto apollo.prediction
message Trajectory
  1 probability double
  2 trajectory_point repeated common.TrajectoryPoint
message ObstaclePriority
  25 priority Priority = NORMAL
enum ObstaclePriority.Priority CAUTION=1 NORMAL=2 IGNORE=3

file modules/common_msgs/prediction_msgs/prediction_obstacle.proto apollo.prediction
message ObstacleIntent
  1 type Type = UNKNOWN
enum ObstacleIntent.Type UNKNOWN=0 STOP=1 STATIONARY=2 MOVING=3 CHANGE_LANE=4 \
LOW_ACCELERATION=5 HIGH_ACCELERATION=6 LOW_DECELERATION=7 HIGH_DECELERATION=8
message PredictionObstacle
  1 perception_obstacle perception.PerceptionObstacle
  2 timestamp double
  3 predicted_period double
  4 trajectory repeated Trajectory
  5 intent ObstacleIntent
  6 priority ObstaclePriority
  7 is_static bool = false
message PredictionObstacles
  1 header common.Header
  2 prediction_obstacle repeated PredictionObstacle
  3 perception_error_code common.ErrorCode
  4 start_timestamp double
  5 end_timestamp double
"""

ROUTING = """
file modules/common_msgs/routing_msgs/routing.proto apollo.routing
enum ChangeLaneType FORWARD=0 LEFT=1 RIGHT=2
message LaneWaypoint
  1 id string
  2 s double
  3 pose common.PointENU
  4 heading double
message LaneSegment
  1 id string
  2 start_s double
  3 end_s double
message RoutingRequest
  1 header common.Header
  2 waypoint repeated LaneWaypoint
  3 blacklisted_lane repeated LaneSegment
  4 blacklisted_road repeated string
message Passage
  1 segment repeated LaneSegment
  2 can_exit bool
  3 change_lane_type ChangeLaneType = FORWARD
message RoadSegment
  1 id string
  2 passage repeated Passage
message RoutingResponse
  1 header common.Header
  2 road repeated RoadSegment
  4 routing_request RoutingRequest
  5 map_version bytes
  6 status common.StatusPb
"""

PLANNING = """
file modules/common_msgs/planning_msgs/decision.proto apollo.planning
enum StopReasonCode STOP_REASON_HEAD_VEHICLE=1 STOP_REASON_DESTINATION=2 \
STOP_REASON_PEDESTRIAN=3 STOP_REASON_OBSTACLE=4 STOP_REASON_PREPARKING=5 \
STOP_REASON_SIGNAL=100 STOP_REASON_STOP_SIGN=101 STOP_REASON_YIELD_SIGN=102 \
STOP_REASON_CLEAR_ZONE=103 STOP_REASON_CROSSWALK=104 STOP_REASON_CREEPER=105 \
STOP_REASON_REFERENCE_END=106 STOP_REASON_YELLOW_SIGNAL=107 STOP_REASON_PULL_OVER=108 \
STOP_REASON_SIDEPASS_SAFETY=109 STOP_REASON_PRE_OPEN_SPACE_STOP=200 \
STOP_REASON_LANE_CHANGE_URGENCY=201 STOP_REASON_EMERGENCY=202
message MainStop
  1 reason_code StopReasonCode
  2 reason string
  3 stop_point common.PointENU
  4 stop_heading double
  5 change_lane_type routing.ChangeLaneType
message MainCruise
  1 change_lane_type routing.ChangeLaneType
message MainEmergencyStop
  1 reason_code ReasonCode
  2 reason string
enum MainEmergencyStop.ReasonCode ESTOP_REASON_INTERNAL_ERR=1 ESTOP_REASON_COLLISION=2 \
ESTOP_REASON_ST_FIND_PATH=3 ESTOP_REASON_ST_MAKE_DECISION=4 ESTOP_REASON_SENSOR_ERROR=5
message MainMissionComplete
  1 stop_point common.PointENU
  2 stop_heading double
message MainNotReady
  1 reason string
message MainParking
  1 status ParkingStatus
enum MainParking.ParkingStatus IN_PARKING=1
message MainDecision
  1 cruise MainCruise in task
  2 stop MainStop in task
  3 estop MainEmergencyStop in task
  6 mission_complete MainMissionComplete in task
  7 not_ready MainNotReady in task
  8 parking MainParking in task
message ObjectIgnore
message ObjectStop
  1 reason_code StopReasonCode
  2 distance_s double
message ObjectFollow
  1 distance_s double
message ObjectYield
  1 distance_s double
message ObjectOvertake
  1 distance_s double
message ObjectNudge
  1 type Type
  2 distance_l double
enum ObjectNudge.Type LEFT_NUDGE=1 RIGHT_NUDGE=2 DYNAMIC_LEFT_NUDGE=3 \
DYNAMIC_RIGHT_NUDGE=4
message ObjectAvoid
message ObjectSidePass
  1 type Type
enum ObjectSidePass.Type LEFT=1 RIGHT=2
message ObjectDecisionType
  1 ignore ObjectIgnore in object_tag
  2 stop ObjectStop in object_tag
  3 follow ObjectFollow in object_tag
  4 yield ObjectYield in object_tag
  5 overtake ObjectOvertake in object_tag
  6 nudge ObjectNudge in object_tag
  7 avoid ObjectAvoid in object_tag
  8 side_pass ObjectSidePass in object_tag
message ObjectDecision
  1 id string
  2 perception_id int32
  3 object_decision repeated ObjectDecisionType
message ObjectDecisions
  1 decision repeated ObjectDecision
message DecisionResult
  1 main_decision MainDecision
  2 object_decision ObjectDecisions
  3 vehicle_signal common.VehicleSignal

file modules/common_msgs/planning_msgs/planning.proto apollo.planning
message EStop
  1 is_estop bool
  2 reason string
message ADCTrajectory
  1 header common.Header
  2 total_path_length double
  3 total_path_time double
  6 estop EStop
  9 is_replan bool = false
  10 gear canbus.Chassis.GearPosition
  12 trajectory_point repeated common.TrajectoryPoint
  14 decision DecisionResult
  16 routing_header common.Header
  17 right_of_way_status RightOfWayStatus
  18 lane_id repeated hdmap.Id
  21 trajectory_type TrajectoryType = UNKNOWN
  22 replan_reason string
  23 target_lane_id repeated hdmap.Id
enum ADCTrajectory.RightOfWayStatus UNPROTECTED=0 PROTECTED=1
enum ADCTrajectory.TrajectoryType UNKNOWN=0 NORMAL=1 PATH_FALLBACK=2 \
SPEED_FALLBACK=3 PATH_REUSED=4
"""

TEXTS = (COMMON, STATE, PERCEPTION, ROUTING, PLANNING)
