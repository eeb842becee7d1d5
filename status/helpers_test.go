package status

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

var (
	now    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before = now.Add(-time.Hour)
)

// podOf returns a pod with the named containers. "i:" marks a plain init container, "s:" a
// sidecar, "e:" an ephemeral container.
func podOf(policy v1.RestartPolicy, names ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", Generation: 1},
		Spec:       v1.PodSpec{RestartPolicy: policy},
	}
	always := v1.ContainerRestartPolicyAlways
	for _, name := range names {
		kind, rest, ok := strings.Cut(name, ":")
		if !ok {
			rest = name
		}
		c := v1.Container{Name: rest, Image: "image/" + rest}
		switch {
		case !ok:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		case kind == "i":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case kind == "s":
			c.RestartPolicy = &always
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case kind == "e":
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers,
				v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)})
		}
	}
	return pod
}

func static(pod *v1.Pod) *v1.Pod {
	pod.Annotations = map[string]string{podfacts.ConfigSource: "file"}
	return pod
}

func deleted(pod *v1.Pod) *v1.Pod {
	at := metav1.NewTime(now)
	pod.DeletionTimestamp = &at
	return pod
}

// restartAllRule makes an exit code of the container restart all containers.
func restartAllRule(c *v1.Container, code int32) {
	never := v1.ContainerRestartPolicyNever
	if c.RestartPolicy == nil {
		c.RestartPolicy = &never
	}
	c.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
		},
	}}
}

type option func(*observed.Container)

func attempt(n int32) option   { return func(c *observed.Container) { c.RestartCount = n } }
func id(s string) option       { return func(c *observed.Container) { c.ID.ID = s } }
func image(name string) option { return func(c *observed.Container) { c.Image = name } }
func instance(name string, state observed.State, opts []option) observed.Container {
	c := observed.Container{
		ID: observed.ContainerID{Runtime: "fake", ID: name + "-0"}, Name: name, SandboxID: "sb", State: state,
		CreatedAt: before, Image: "image/" + name, ImageRef: "ref/" + name,
	}
	if state == observed.StateRunning || state == observed.StateExited {
		c.StartedAt = before
	}
	for _, o := range opts {
		o(&c)
	}
	return c
}

func running(name string, opts ...option) observed.Container {
	return instance(name, observed.StateRunning, opts)
}
func created(name string, opts ...option) observed.Container {
	return instance(name, observed.StateCreated, opts)
}
func unknown(name string, opts ...option) observed.Container {
	return instance(name, observed.StateUnknown, opts)
}
func exited(name string, code int32, opts ...option) observed.Container {
	c := instance(name, observed.StateExited, opts)
	c.ExitCode, c.FinishedAt = code, before.Add(time.Minute)
	return c
}

// observe returns an observation with a ready sandbox "sb".
func observe(containers ...observed.Container) *observed.Pod {
	return &observed.Pod{
		UID: "uid", IPs: []string{"10.0.0.1"}, Containers: containers, ObservedAt: now,
		Sandboxes: []observed.Sandbox{{ID: "sb", State: observed.SandboxReady, HasNetworkStatus: true, IPs: []string{"10.0.0.1"}}},
	}
}

// compute computes twice and requires that the second call changes nothing.
func compute(t *testing.T, in Input) v1.PodStatus {
	t.Helper()
	return computeAll(t, in).Status
}

func computeAll(t *testing.T, in Input) Result {
	t.Helper()
	if in.Now.IsZero() {
		in.Now = now
	}
	if in.Observed == nil {
		in.Observed = &observed.Pod{UID: in.Pod.UID}
	}
	return computeTwice(t, in)
}

func computed(t testing.TB, in Input) Result {
	t.Helper()
	r, err := Compute(in)
	require.NoError(t, err)
	return r
}

func computeTwice(t *testing.T, in Input) Result {
	t.Helper()
	untouched := snapshot(t, in)
	first := computed(t, in)
	require.Equal(t, untouched, snapshot(t, in), "the input is not changed")
	requireUnshared(t, in, first)
	again := in
	again.Previous, again.Now = &first.Status, in.Now.Add(time.Minute)
	second := computed(t, again)
	require.True(t, equality.Semantic.DeepEqual(first.Status, second.Status), "the second result differs: %+v\n%+v", first.Status, second.Status)
	require.Equal(t, first.RestartAll, second.RestartAll)
	return first
}

type probed struct {
	Startup, Readiness probe.Verdict
	// ContainerID is the ID of the instance. Default: the newest one.
	ContainerID string
}

// results returns the probe results by container. A nil map means that the pod is not probed.
func results(observed *observed.Pod, by map[string]probed) probe.Results {
	if by == nil {
		return nil
	}
	out := probe.Results{}
	for name, p := range by {
		if p.ContainerID == "" && observed != nil && observed.Newest(name) != nil {
			p.ContainerID = observed.Newest(name).ID.String()
		}
		out = append(out,
			probe.Stored{Container: name, ContainerID: p.ContainerID, Type: probe.Startup, Result: p.Startup},
			probe.Stored{Container: name, ContainerID: p.ContainerID, Type: probe.Readiness, Result: p.Readiness})
	}
	return out
}

// snapshot returns the text of all mutable parts of an input.
func snapshot(t *testing.T, in Input) string {
	t.Helper()
	in.Override = nil
	text, err := json.Marshal(struct {
		Pod           *v1.Pod
		Observed      *observed.Pod
		Previous, API *v1.PodStatus
		Probes        probe.Results
		StartFailures map[string]podwright.Reason
		Allocated     map[string]v1.ResourceRequirements
		HostIPs       []string
	}{in.Pod, in.Observed, in.Previous, in.API, in.Probes, in.StartFailures, in.Allocated, in.HostIPs})
	require.NoError(t, err)
	return string(text)
}

func requireUnshared(t *testing.T, in Input, r Result) {
	t.Helper()
	in.Override = nil
	theirs, ours := map[uintptr]string{}, map[uintptr]string{}
	memory(reflect.ValueOf(in), "in", theirs)
	memory(reflect.ValueOf(r), "result", ours)
	for at, path := range ours {
		require.Empty(t, theirs[at], "%s shares memory with the input", path)
	}
}

// memory records the address of every value that v points to.
func memory(v reflect.Value, path string, found map[uintptr]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() || found[v.Pointer()] != "" {
			return
		}
		found[v.Pointer()] = path
		memory(v.Elem(), path, found)
	case reflect.Slice:
		if v.Cap() > 0 {
			found[v.Pointer()] = path
		}
		for i := range v.Len() {
			memory(v.Index(i), fmt.Sprintf("%s[%d]", path, i), found)
		}
	case reflect.Map:
		if !v.IsNil() {
			found[v.Pointer()] = path
		}
		for _, key := range v.MapKeys() {
			memory(v.MapIndex(key), fmt.Sprintf("%s[%s]", path, key), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			memory(v.Field(i), path+"."+v.Type().Field(i).Name, found)
		}
	}
}

// short returns a state as "waiting Reason", "running" or "exit <code> Reason".
func short(s v1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return strings.TrimSpace("waiting " + s.Waiting.Reason)
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return strings.TrimSpace(fmt.Sprint("exit ", s.Terminated.ExitCode, " ", s.Terminated.Reason))
	default:
		return ""
	}
}

// cond returns a condition as "True Reason".
func cond(s v1.PodStatus, t v1.PodConditionType) string {
	c := podfacts.Condition(s.Conditions, t)
	if c == nil {
		return "absent"
	}
	return strings.TrimSpace(string(c.Status) + " " + c.Reason)
}

func was(name, containerID string, restarts int32, state, last v1.ContainerState) *v1.PodStatus {
	c := v1.ContainerStatus{Name: name, RestartCount: restarts, State: state, LastTerminationState: last}
	if containerID != "" {
		c.ContainerID = "fake://" + containerID
	}
	return &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{c}}
}

func wasRunning() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(before)}}
}

func wasTerminated(code int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func wasWaiting(reason string) v1.ContainerState { return waiting(reason, "") }
