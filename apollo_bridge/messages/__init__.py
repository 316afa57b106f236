"""Apollo's messages: its `.proto` files as far as the bridge uses them, and classes.

Field numbers are those of Apollo 5 to 9; only the fields that the bridge reads, or that
the stand-in writes, are in `protos`. Protobuf keeps what it does not know. What differs
between the editions is in folders of their own: control's pad lost its driving mode in
Apollo 9, so that `action` has another number, and planning's gained an action.
`edition8.binpb` and `edition9.binpb` are compiled from them by `make protos`.
"""
