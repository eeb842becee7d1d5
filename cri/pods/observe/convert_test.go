package observe

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseHash(t *testing.T) {
	c := v1.Container{Image: "busybox", Name: "a"}
	require.Equal(t, podfacts.Hash(&c), parseHash("5264866e"))
	require.Zero(t, parseHash("no hash"))
}

func TestSandboxIPs(t *testing.T) {
	network := func(ip string, more ...string) *runtimeapi.PodSandboxNetworkStatus {
		out := &runtimeapi.PodSandboxNetworkStatus{Ip: ip}
		for _, a := range more {
			out.AdditionalIps = append(out.AdditionalIps, &runtimeapi.PodIP{Ip: a})
		}
		return out
	}
	require.Nil(t, SandboxIPs(nil))
	require.Nil(t, SandboxIPs(network("")))
	require.Equal(t, []string{"10.0.0.1", "fd00::1"}, SandboxIPs(network("10.0.0.1", "fd00::1")))
	require.Nil(t, SandboxIPs(network("10.0.0.1", "nonsense")))
}

func TestConvertResources(t *testing.T) {
	require.Nil(t, toResources(nil))
	got := toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 102, MemoryLimitInBytes: 1 << 20})
	require.Equal(t, &observed.Resources{MilliCPULimit: new(int64(500)), MilliCPURequest: new(int64(100)), MemoryLimit: new(int64(1 << 20))}, got)
	require.Equal(t, new(int64(0)), toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: -1}).MilliCPULimit)
	require.Equal(t, &observed.Resources{}, toResources(&runtimeapi.LinuxContainerResources{}))
	for shares, milli := range map[int64]int64{1: 1, 2: 2, 1023: 1000, 1024: 1000, 1025: 1001, 1 << 30: 1 << 20 * 1000} {
		require.Equal(t, milli, *toResources(&runtimeapi.LinuxContainerResources{CpuShares: shares}).MilliCPURequest, shares)
	}
	require.Equal(t, &observed.Resources{MilliCPULimit: new(int64(3000)), MemoryLimit: new(int64(1))}, toResources(&runtimeapi.LinuxContainerResources{CpuPeriod: 1, CpuQuota: 3, MemoryLimitInBytes: 1}))
	for _, quota := range []int64{0, -1, -1000} {
		require.Zero(t, quotaToMilli(quota, 1))
	}
	require.True(t, Time(0).IsZero())
	require.Equal(t, time.Unix(0, 1), Time(1))
}

func TestConvertStatus(t *testing.T) {
	got := toContainerStatus("fake", "s", &runtimeapi.ContainerStatus{
		Id: "1", State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: 1, StartedAt: 2, FinishedAt: 3, ExitCode: 4,
		ImageRef: "ref", StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS1,
		Annotations: map[string]string{labels.AnnotationRestartCount: "bad", labels.AnnotationHash: "xyz"},
	})
	require.True(t, got.StartedAt.IsZero())
	require.Zero(t, got.ExitCode)
	require.True(t, got.FinishedAt.IsZero())
	require.Equal(t, "ref", got.ImageID)
	require.Equal(t, "SIGRTMIN+1", got.StopSignal)
	require.Zero(t, got.RestartCount)
	require.Zero(t, got.Hash)
}

// The reason has at most 1 KiB and the message at most 4 KiB, at the boundary of a character.
func TestRuntimeTextsAreBounded(t *testing.T) {
	long := "a" + strings.Repeat("é", 1<<19)
	for _, tc := range []struct{ reason, message, wantReason, wantMessage string }{
		{"Error", "exit", "Error", "exit"},
		{long[1 : 1<<10+1], long[1 : 4<<10+1], long[1 : 1<<10+1], long[1 : 4<<10+1]},
		{long, long, long[:1<<10-1], long[:4<<10-1]},
	} {
		got := toContainerStatus("fake", "s", &runtimeapi.ContainerStatus{
			State: runtimeapi.ContainerState_CONTAINER_EXITED, Reason: tc.reason, Message: tc.message,
		})
		require.Equal(t, tc.wantReason, got.Reason)
		require.Equal(t, tc.wantMessage, got.Message)
	}
}

// The label identifies the pod of an event. Without one, the UID in the metadata is still a hint.
func TestEventUID(t *testing.T) {
	label := func(uid string) map[string]string { return map[string]string{labels.PodUID: uid} }
	meta := &runtimeapi.PodSandboxMetadata{Uid: "metadata"}
	containers := []*runtimeapi.ContainerStatus{{}, {Labels: label("container")}}
	for want, event := range map[types.UID]*runtimeapi.ContainerEventResponse{
		"":          {},
		"sandbox":   {PodSandboxStatus: &runtimeapi.PodSandboxStatus{Labels: label("sandbox"), Metadata: meta}, ContainersStatuses: containers},
		"container": {PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: meta}, ContainersStatuses: containers},
		"metadata":  {PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: meta}, ContainersStatuses: containers[:1]},
	} {
		require.Equal(t, want, eventUID(event, cri.Owner{Unlabelled: true}))
	}
	long := strings.Repeat("a", 1<<20)
	for _, sandbox := range []*runtimeapi.PodSandboxStatus{{Labels: label(long), Metadata: meta}, {Metadata: &runtimeapi.PodSandboxMetadata{Uid: long}}, {Labels: label("../a")}} {
		require.Empty(t, eventUID(&runtimeapi.ContainerEventResponse{PodSandboxStatus: sandbox}, cri.Owner{Unlabelled: true}))
	}
	foreign := &runtimeapi.ContainerEventResponse{PodSandboxStatus: &runtimeapi.PodSandboxStatus{Labels: label("sandbox"), Metadata: meta}}
	require.Empty(t, eventUID(foreign, cri.Owner{Name: "edge"}))
}

func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Runtime":     {RuntimeName: "fake"},
		"RuntimeName": {Runtime: struct{ cri.RuntimeService }{}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field+" is required")
	}
}

// crowded is a runtime whose containers do not fit into one list.
type crowded struct {
	Runtime
	whole, sandboxes error
	fails            map[string]error // by sandbox
}

func (c crowded) ListContainers(_ context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if f == nil {
		return nil, c.whole
	}
	return []*runtimeapi.Container{{Id: "in " + f.PodSandboxId}}, c.fails[f.PodSandboxId]
}

func (c crowded) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return []*runtimeapi.PodSandbox{{Id: "a"}, {Id: "b"}}, c.sandboxes
}

// C39: if the containers do not fit into one list, they are listed per sandbox, completely or
// with an error.
func TestListContainers(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		runtime crowded
		want    []string
		text    string // of the error, or ""
		warns   bool
	}{
		"fits":                   {crowded{}, nil, "", false},
		"cannot be listed":       {crowded{whole: away}, nil, "away", false},
		"too much":               {crowded{whole: cri.ErrReplyTooLarge}, []string{"in a", "in b"}, "", true},
		"which sandboxes":        {crowded{whole: cri.ErrReplyTooLarge, sandboxes: away}, nil, "list sandboxes: away", true},
		"one cannot be listed":   {crowded{whole: cri.ErrReplyTooLarge, fails: map[string]error{"a": away}}, nil, "sandbox a: away", true},
		"the last one can not":   {crowded{whole: cri.ErrReplyTooLarge, fails: map[string]error{"b": away}}, nil, "sandbox b: away", true},
		"one is too large again": {crowded{whole: cri.ErrReplyTooLarge, fails: map[string]error{"b": cri.ErrReplyTooLarge}}, nil, "sandbox b: ", true},
	} {
		var log strings.Builder
		got, err := ListContainers(t.Context(), c.runtime, slog.New(slog.NewTextHandler(&log, nil)))
		var ids []string
		for _, one := range got {
			ids = append(ids, one.Id)
		}
		require.Equal(t, c.want, ids, name)
		require.Equal(t, c.warns, log.Len() > 0, name)
		if c.text == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.text, name)
		}
		silent, _ := ListContainers(t.Context(), c.runtime, nil)
		require.Equal(t, got, silent, "without a log")
	}
}

// A state outside the API is unknown.
func TestStates(t *testing.T) {
	for in, want := range map[runtimeapi.ContainerState]observed.State{
		runtimeapi.ContainerState_CONTAINER_CREATED: observed.StateCreated, runtimeapi.ContainerState_CONTAINER_RUNNING: observed.StateRunning,
		runtimeapi.ContainerState_CONTAINER_EXITED: observed.StateExited, runtimeapi.ContainerState_CONTAINER_UNKNOWN: observed.StateUnknown, 99: observed.StateUnknown,
	} {
		require.Equal(t, want, State(in), in)
	}
	for in, want := range map[runtimeapi.PodSandboxState]observed.SandboxState{
		runtimeapi.PodSandboxState_SANDBOX_READY: observed.SandboxReady, runtimeapi.PodSandboxState_SANDBOX_NOTREADY: observed.SandboxNotReady, 99: observed.SandboxUnknown,
	} {
		require.Equal(t, want, toSandboxState(in), in)
	}
	for in, want := range map[runtimeapi.Signal]string{runtimeapi.Signal_SIGNAL_SIGTERM: "SIGTERM", runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT: "", 9999: ""} {
		require.Equal(t, want, signalName(in), in)
	}
}

// Pods are ordered by their newest object, then by UID.
func TestOrderOfPods(t *testing.T) {
	sandbox := func(uid string, created int64) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: uid, Metadata: &runtimeapi.PodSandboxMetadata{}, CreatedAt: created, Labels: map[string]string{labels.PodUID: uid}}
	}
	container := &runtimeapi.Container{
		Id: "c", Metadata: &runtimeapi.ContainerMetadata{}, Image: &runtimeapi.ImageSpec{}, CreatedAt: 9,
		Labels: map[string]string{labels.PodUID: "oldest", labels.ContainerName: "a"},
	}
	sandboxes := []*runtimeapi.PodSandbox{
		sandbox("e", 3), sandbox("d", 3), sandbox("oldest", 1), sandbox("a", 2), sandbox("b", 4), sandbox("c", 3), sandbox("f", 8),
	}
	var order []string
	for _, p := range groupPods("fake", sandboxes, []*runtimeapi.Container{container}) {
		order = append(order, string(p.UID))
	}
	require.Equal(t, []string{"oldest", "f", "b", "c", "d", "e", "a"}, order)
}

// P8: the newest comes first: by attempt, then by creation, then by ID.
func TestNewestFirst(t *testing.T) {
	sandbox := func(id string, attempt uint32, created int64) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Attempt: attempt}, CreatedAt: created}
	}
	container := func(id string, attempt uint32, created int64) *runtimeapi.Container {
		return &runtimeapi.Container{Id: id, Metadata: &runtimeapi.ContainerMetadata{Attempt: attempt}, CreatedAt: created}
	}
	sandboxes := []*runtimeapi.PodSandbox{sandbox("d", 0, 9), sandbox("c", 1, 2), sandbox("b", 1, 2), sandbox("a", 1, 3)}
	containers := []*runtimeapi.Container{container("d", 0, 9), container("c", 1, 2), container("b", 1, 2), container("a", 1, 3)}
	sortSandboxes(sandboxes)
	sortContainers(containers)
	for i, want := range []string{"a", "b", "c", "d"} {
		require.Equal(t, want, sandboxes[i].Id)
		require.Equal(t, want, containers[i].Id)
	}
}
