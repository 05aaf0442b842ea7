"""Requests as cluster-autoscaler sends them to an expander."""

from wharfinger.web.expander import message_class


def filled(message, value):
    """The message with the fields of a manifest."""
    for name, member in value.items():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            continue
        if field.message_type is None:
            getattr(message, name).extend(member) if field.is_repeated else setattr(message, name, member)
        elif field.message_type.GetOptions().map_entry:
            for key, each in member.items():
                if field.message_type.fields_by_name["value"].message_type is None:
                    getattr(message, name)[key] = each
                else:
                    getattr(message, name)[key].string = each
        elif field.is_repeated:
            for each in member:
                filled(getattr(message, name).add(), each)
        else:
            getattr(message, name).SetInParent()
            filled(getattr(message, name), member)
    return message


def content(kind, obj):
    """A manifest as protocol buffers; what is bytes already stays."""
    return obj if isinstance(obj, bytes) else filled(message_class(kind)(), obj).SerializeToString()


def request(groups, *, as_bytes):
    """A BestOptionsRequest for (name, count, node, pods); since Kubernetes 1.35 objects are sent as bytes."""
    asked = message_class("BestOptionsRequest")()
    for name, count, template, pods in groups:
        option = asked.options.add(nodeGroupId=name, nodeCount=count)
        for pod in pods:
            if as_bytes:
                option.podBytes.append(content("Pod", pod))
            else:
                filled(option.pod.add(), pod)
        if template is not None and as_bytes:
            asked.nodeBytesMap[name] = content("Node", template)
        elif template is not None:
            filled(asked.nodeMap[name], template)
    return asked.SerializeToString()
