"""What can be said to Apollo, by channel or, from Apollo 9 on, by service.

The two pads differ between the editions: control's lost its driving mode in Apollo 9,
so that `action` has another number, and planning's gained an action.
"""

CONTROL = """
file modules/common_msgs/control_msgs/control_cmd.proto apollo.control
message ControlCommand
  1 header common.Header
  3 throttle double
  4 brake double
  7 steering_target double
  9 speed double
  10 acceleration double
  20 gear_location canbus.Chassis.GearPosition
"""

GUARDIAN = """
file modules/common_msgs/monitor_msgs/system_status.proto apollo.monitor
message SystemStatus
  1 header common.Header
  5 safety_mode_trigger_time double
  6 require_emergency_stop bool
"""

PADS_8 = """
file modules/common_msgs/planning_msgs/pad_msg.proto apollo.planning
message PadMessage
  1 header common.Header
  2 action DrivingAction
enum PadMessage.DrivingAction NONE=100 FOLLOW=0 CHANGE_LEFT=1 CHANGE_RIGHT=2 \
PULL_OVER=3 STOP=4 RESUME_CRUISE=5

file modules/common_msgs/control_msgs/pad_msg.proto apollo.control
enum DrivingAction STOP=0 START=1 RESET=2 VIN_REQ=3
message PadMessage
  1 header common.Header
  2 driving_mode canbus.Chassis.DrivingMode
  3 action DrivingAction
"""

PADS_9 = """
file modules/common_msgs/planning_msgs/pad_msg.proto apollo.planning
message PadMessage
  1 header common.Header
  2 action DrivingAction
enum PadMessage.DrivingAction NONE=100 FOLLOW=0 CHANGE_LEFT=1 CHANGE_RIGHT=2 \
PULL_OVER=3 STOP=4 RESUME_CRUISE=5 CLEAR_PLANNING=6

file modules/common_msgs/control_msgs/pad_msg.proto apollo.control
enum DrivingAction START=1 RESET=2 VIN_REQ=3
message PadMessage
  1 header common.Header
  2 action DrivingAction
"""

EXTERNAL = """
file modules/common_msgs/planning_msgs/planning_command.proto apollo.planning
message PlanningCommand
  1 header common.Header
  2 command_id int64 = -1
  3 lane_follow_command routing.RoutingResponse
  4 target_speed double
  5 is_motion_command bool = false

file modules/common_msgs/external_command_msgs/geometry.proto apollo.external_command
message Pose
  1 x required double
  2 y required double
  3 heading double

file modules/common_msgs/external_command_msgs/lane_segment.proto \
apollo.external_command
message LaneSegment
  1 id string
  2 start_s double
  3 end_s double

file modules/common_msgs/external_command_msgs/action_command.proto \
apollo.external_command
enum ActionCommandType FOLLOW=1 CHANGE_LEFT=2 CHANGE_RIGHT=3 PULL_OVER=4 STOP=5 \
START=6 CLEAR_PLANNING=7 SWITCH_TO_MANUAL=50 SWITCH_TO_AUTO=51 VIN_REQ=52
message ActionCommand
  1 header common.Header
  2 command_id int64 = -1
  3 command required ActionCommandType

file modules/common_msgs/external_command_msgs/speed_command.proto \
apollo.external_command
message SpeedCommand
  1 header common.Header
  2 command_id int64 = -1
  3 target_speed double in linear_speed
  4 target_speed_factor double in linear_speed
  5 is_restore_target_speed bool in linear_speed

file modules/common_msgs/external_command_msgs/lane_follow_command.proto \
apollo.external_command
message LaneFollowCommand
  1 header common.Header
  2 command_id int64 = -1
  3 is_start_pose_set bool = false
  4 way_point repeated Pose
  5 end_pose required Pose
  6 blacklisted_lane repeated LaneSegment
  7 blacklisted_road repeated string
  8 target_speed double

file modules/common_msgs/external_command_msgs/command_status.proto \
apollo.external_command
enum CommandStatusType RUNNING=1 FINISHED=2 ERROR=3 UNKNOWN=4
message CommandStatusRequest
  1 header common.Header
  2 command_id int64 = -1
message CommandStatus
  1 header common.Header
  2 command_id int64 = -1
  3 status required CommandStatusType
  4 message string
"""

TEXTS_8 = (CONTROL, GUARDIAN, PADS_8)
TEXTS_9 = (CONTROL, GUARDIAN, PADS_9, EXTERNAL)
