package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// containerField is the start of the name of the field with a container's state.
const (
	containerField    = "container "
	stateWaiting      = "waiting"
	stateRunning      = "running"
	stateTerminated   = "terminated"
	endpointReady     = "ready"
	endpointNotReady  = "not ready"
	terminatingSuffix = ", terminating"
)

// nodeObjects returns the Node as objects. An empty body is an absent Node.
func nodeObjects(body []byte) (objects, error) {
	if len(body) == 0 {
		return objects{}, nil
	}
	var n v1.Node
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, err
	}
	fields := map[string]value{existence: {version: string(n.UID)}}
	for _, c := range n.Status.Conditions {
		fields[string(c.Type)] = value{string(c.Status), c.Reason, c.LastTransitionTime.UTC().Format(time.RFC3339)}
	}
	for _, t := range n.Spec.Taints {
		fields["taint "+t.Key+":"+string(t.Effect)] = value{text: "set"}
	}
	return objects{"node": fields}, nil
}

// podObjects returns pods as objects. The name of a mirror pod loses its suffix, the node's name.
func podObjects(node string) func(body []byte) (objects, error) {
	return func(body []byte) (objects, error) {
		var list v1.PodList
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, err
		}
		all := objects{}
		for _, p := range list.Items {
			all["pod "+strings.TrimSuffix(p.Name, "-"+node)] = podFields(&p)
		}
		return all, nil
	}
}

func podFields(p *v1.Pod) map[string]value {
	fields := map[string]value{
		existence: {version: string(p.UID)},
		"phase":   {text: string(p.Status.Phase), detail: p.Status.Reason},
		"IP":      {text: map[bool]string{true: "set"}[p.Status.PodIP != ""], version: p.Status.PodIP},
	}
	if p.DeletionTimestamp != nil {
		fields["deletion"] = value{text: "requested"}
	}
	for _, c := range p.Status.Conditions {
		fields[string(c.Type)] = value{string(c.Status), c.Reason, c.LastTransitionTime.UTC().Format(time.RFC3339)}
	}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			name := containerField + c.Name
			fields[name] = containerState(c)
			fields["readiness of "+c.Name] = value{text: strconv.FormatBool(c.Ready)}
			fields["restart count of "+c.Name] = value{text: strconv.Itoa(int(c.RestartCount))}
		}
	}
	return fields
}

func containerState(c v1.ContainerStatus) value {
	switch s := c.State; {
	case s.Running != nil:
		return value{text: stateRunning, version: c.ContainerID}
	case s.Terminated != nil:
		return value{stateTerminated, fmt.Sprintf("%s, exit code %d", s.Terminated.Reason, s.Terminated.ExitCode), c.ContainerID}
	case s.Waiting != nil:
		return value{text: stateWaiting, detail: s.Waiting.Reason}
	}
	return value{}
}

// endpoints is the read part of a list of Endpoints, whose Go type is deprecated.
type endpoints struct {
	Items []struct {
		Metadata struct{ Name string }
		Subsets  []struct{ Addresses, NotReadyAddresses []address }
	}
}

type address struct {
	IP        string
	TargetRef *v1.ObjectReference
}

// endpointObjects returns Endpoints as objects with a field for each pod.
func endpointObjects(body []byte) (objects, error) {
	var list endpoints
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	all := objects{}
	for _, e := range list.Items {
		fields := map[string]value{}
		for _, s := range e.Subsets {
			for _, a := range s.NotReadyAddresses {
				fields[target(a.TargetRef, a.IP)] = value{text: endpointNotReady}
			}
			for _, a := range s.Addresses {
				fields[target(a.TargetRef, a.IP)] = value{text: endpointReady}
			}
		}
		all["endpoints "+e.Metadata.Name] = fields
	}
	return all, nil
}

// sliceObjects returns the EndpointSlices of each service as one object with a field for each pod.
func sliceObjects(body []byte) (objects, error) {
	var list discoveryv1.EndpointSliceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	all := objects{}
	for _, s := range list.Items {
		name := "endpointslice " + s.Labels[discoveryv1.LabelServiceName]
		if all[name] == nil {
			all[name] = map[string]value{}
		}
		for _, e := range s.Endpoints {
			text := endpointNotReady
			if c := e.Conditions; c.Ready == nil || *c.Ready {
				text = endpointReady
			}
			if t := e.Conditions.Terminating; t != nil && *t {
				text += terminatingSuffix
			}
			all[name][target(e.TargetRef, strings.Join(e.Addresses, " "))] = value{text: text}
		}
	}
	return all, nil
}

func target(ref *v1.ObjectReference, ip string) string {
	if ref == nil {
		return ip
	}
	return "pod " + ref.Name
}

// eventCounts returns the number of events of the node and its pods, by type, reason and object.
func eventCounts(body []byte, node, namespace string) (map[string]int, error) {
	var list v1.EventList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, e := range list.Items {
		o := e.InvolvedObject
		name := "pod " + strings.TrimSuffix(o.Name, "-"+node)
		switch {
		case o.Kind == "Node" && o.Name == node:
			name = "node"
		case o.Kind != "Pod" || o.Namespace != namespace:
			continue
		}
		n := cmp.Or(int(e.Count), 1)
		if e.Series != nil {
			n = max(n, int(e.Series.Count))
		}
		counts[e.Type+" "+e.Reason+", "+name] += n
	}
	return counts, nil
}

// more returns the increases of counts.
func more(before, after map[string]int) map[string]int {
	out := map[string]int{}
	for name, n := range after {
		if d := n - before[name]; d > 0 {
			out[name] = d
		}
	}
	return out
}
