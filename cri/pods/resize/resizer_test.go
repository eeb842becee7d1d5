package resize

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewRefuses(t *testing.T) {
	runtime, requests := struct{ cri.ResourceUpdater }{}, &request.Builder{}
	for text, cfg := range map[string]Config{
		"Config.Runtime is required":  {Requests: requests},
		"Config.Requests is required": {Runtime: runtime},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, text)
	}
}

// Without a store no resources are recorded or returned.
func TestRecordWithoutStore(t *testing.T) {
	r, err := Load(nil, "1")
	require.NoError(t, err)
	require.Nil(t, r.Actuated())
	require.NoError(t, r.NoteContainer(nil, nil))
	require.NoError(t, r.NotePod(nil))
}

// slow is a runtime whose calls last until their contexts are done.
type slow struct {
	cri.ResourceUpdater
	began func()
	stats func() (*runtimeapi.ContainerStats, error)
}

func (s slow) UpdateContainerResources(ctx context.Context, _ *runtimeapi.UpdateContainerResourcesRequest) error {
	s.began()
	<-ctx.Done()
	return ctx.Err()
}

func (s slow) ContainerStats(context.Context, string) (*runtimeapi.ContainerStats, error) {
	return s.stats()
}

func newResizer(t *testing.T, cfg Config) *Resizer {
	t.Helper()
	requests, err := request.New(request.Config{})
	require.NoError(t, err)
	cfg.Requests = requests
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

// resizeOne resizes one container of a pod.
func resizeOne(ctx context.Context, t *testing.T, runtime Runtime, todo actions.Actions) error {
	t.Helper()
	_, err := resizeSpec(ctx, t, runtime, v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}, actions.Actuated{}, todo)
	return err
}

// A call may continue for 5 s after its context is done.
func TestStepGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		err := resizeOne(ctx, t, slow{began: cancel}, actions.Actions{UpdateCPU: []actions.Update{{Name: "c"}}})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

// C35: a memory limit is lowered only if the container's usage is available. A failed or empty
// response does not count as no usage.
func TestUnknownUsage(t *testing.T) {
	failed := errors.New("no answer")
	lower := actions.Actions{UpdateMemory: []actions.Update{{Name: "c", Want: actions.Amounts{MemoryLimit: 5}, Have: actions.Amounts{MemoryLimit: 9}}}}
	for text, stats := range map[string]func() (*runtimeapi.ContainerStats, error){
		"no answer":                           func() (*runtimeapi.ContainerStats, error) { return nil, failed },
		"the runtime reports no memory usage": func() (*runtimeapi.ContainerStats, error) { return &runtimeapi.ContainerStats{}, nil },
		"usage 5 bytes": func() (*runtimeapi.ContainerStats, error) {
			return &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 5}}}, nil
		},
	} {
		err := resizeOne(t.Context(), t, slow{stats: stats}, lower)
		require.ErrorIs(t, err, ErrMemoryInUse, text)
		require.ErrorContains(t, err, text)
		require.Equal(t, text == "no answer", errors.Is(err, failed))
	}
	require.ErrorContains(t, resizeOne(t.Context(), t, struct{ cri.ResourceUpdater }{}, lower), "no statistics")
}

// uses is a Cgroups with a fixed memory usage.
type uses struct {
	Cgroups
	bytes int64
	err   error
}

func (u uses) PodMemoryUsage(context.Context, *v1.Pod) (int64, error) { return u.bytes, u.err }

func (u uses) SetPodCgroup(context.Context, *v1.Pod, cgroups.Needs) error { return nil }

// A pod-level memory limit is not lowered if the usage reaches it or is unavailable. Without running
// containers the usage is page cache.
func TestMemoryOfAPod(t *testing.T) {
	failed := errors.New("no such cgroup")
	const limit = 5 << 20
	for name, c := range map[string]struct {
		cgroups Cgroups
		was     int64 // MiB
		text    string
	}{
		"uses less":       {uses{bytes: limit - 1}, 9, ""},
		"uses as much":    {uses{bytes: limit}, 9, "pod: "},
		"uses more":       {uses{bytes: limit + 1}, 9, "usage 5242881 bytes, new limit 5242880"},
		"nobody knows":    {uses{err: failed}, 9, "usage is unknown: no such cgroup"},
		"it is no less":   {uses{bytes: limit, err: failed}, 5, ""},
		"without cgroups": {nil, 9, ""},
		"nothing runs":    {uses{bytes: limit + 1}, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			now, want := new(needs(5, c.was)), new(needs(5, 5))
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: v1.PodSpec{Resources: want, Containers: []v1.Container{{Name: "c"}}}}
			seen := &observed.Pod{UID: "1"}
			if name != "nothing runs" {
				seen.Containers = []observed.Container{{Name: "c", State: observed.StateRunning}}
			}
			err := newResizer(t, Config{Runtime: &tells{}, Cgroups: c.cgroups}).Resize(t.Context(), Request{
				Pod: pod, Status: seen, Actions: &actions.Actions{},
				Record: &Record{uid: "1", store: NewMemory(), actuated: actions.Actuated{Pod: now}},
			})
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.text)
			require.ErrorIs(t, err, ErrMemoryInUse)
		})
	}
}

// An incomplete request, or one with two different pods, is refused.
func TestRequestRefused(t *testing.T) {
	r := newResizer(t, Config{Runtime: slow{}})
	pod := func(uid string) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}} }
	for text, broken := range map[string]func(*Request){
		"":                    func(*Request) {},
		"Request.Pod, ":       func(r *Request) { r.Pod = nil },
		"Status, ":            func(r *Request) { r.Status = nil },
		"Actions and ":        func(r *Request) { r.Actions = nil },
		"Record are required": func(r *Request) { r.Record = nil },
		`Request.Pod.UID "2" and Request.Status.UID "1" differ`:            func(r *Request) { r.Pod = pod("2") },
		`Request.Pod.UID "" and Request.Status.UID "" differ or are empty`: func(r *Request) { r.Pod, r.Status = pod(""), &observed.Pod{} },
	} {
		q := Request{Pod: pod("1"), Status: &observed.Pod{UID: "1"}, Actions: &actions.Actions{}, Record: &Record{}}
		broken(&q)
		err := r.Resize(t.Context(), q)
		if text == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, text)
	}
}

// tells is a runtime, a store and a Cgroups that record their calls.
type tells struct {
	cri.ResourceUpdater
	Cgroups
	did   []string
	fails map[string]error
	ends  func() // called at the first change of a cgroup
}

func (s *tells) note(what string) error {
	s.did = append(s.did, what)
	return s.fails[what]
}

func (s *tells) UpdatePodSandboxResources(_ context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) error {
	return s.note(fmt.Sprintf("sandbox %s shares=%d", r.PodSandboxId, r.Resources.CpuShares))
}

func (s *tells) SetPodCgroup(_ context.Context, _ *v1.Pod, values cgroups.Needs) error {
	if s.ends != nil {
		s.ends()
	}
	return s.note(fmt.Sprintf("cgroup %d", values.CPURequest))
}

func (s *tells) Load(types.UID) (actions.Actuated, error) { return actions.Actuated{}, s.note("load") }

func (s *tells) Save(_ types.UID, a actions.Actuated) error {
	return s.note(fmt.Sprintf("save %d", a.Pod.Requests.Cpu().MilliValue()))
}

// C37: a pod-level resize changes the sandbox, then the cgroup, then the record. If the cgroup
// fails, the sandbox gets the old values again.
func TestResizeWhole(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		fails string
		err   error
		text  string
		want  []string
	}{
		{"", nil, "", []string{"load", "sandbox s shares=102", "cgroup 100", "save 100"}},
		{"load", failed, "load actuated resources: failed", []string{"load"}},
		{"sandbox s shares=102", failed, "resize cpu: sandbox: failed", []string{"load", "sandbox s shares=102"}},
		{"sandbox s shares=102", status.Error(codes.Unimplemented, "no"), "", []string{"load", "sandbox s shares=102", "cgroup 100", "save 100"}},
		{"sandbox s shares=102", status.Error(codes.Unknown, "this is not implemented"), "", []string{"load", "sandbox s shares=102", "cgroup 100", "save 100"}},
		{"cgroup 100", failed, "resize cpu: pod cgroup: failed", []string{"load", "sandbox s shares=102", "cgroup 100", "sandbox s shares=51"}},
		{"save 100", failed, "checkpoint of resources: failed", []string{"load", "sandbox s shares=102", "cgroup 100", "save 100"}},
	} {
		s := &tells{fails: map[string]error{c.fails: c.err}}
		err := resizeTo(t.Context(), t, s, cpuRequest(50), cpuRequest(100))
		require.Equal(t, c.want, s.did, c.fails)
		if c.text == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.text)
		require.ErrorIs(t, err, failed)
	}
}

// If the cgroup cannot be lowered, the record stays unchanged, and the sandbox gets the old
// values again.
func TestLowerWholeFails(t *testing.T) {
	failed := errors.New("failed")
	s := &tells{fails: map[string]error{"cgroup 50": failed}}
	require.ErrorIs(t, resizeTo(t.Context(), t, s, cpuRequest(100), cpuRequest(50)), failed)
	require.Equal(t, []string{"load", "sandbox s shares=51", "cgroup 50", "sandbox s shares=102"}, s.did)
}

// Cancellation lets the current step finish and starts no further step: limit and request are
// separate steps.
func TestResizeWholeEndsBetweenSteps(t *testing.T) {
	raise := func(ctx context.Context, s *tells) error {
		cpu := func(milli int64) *v1.ResourceRequirements {
			list := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
			return &v1.ResourceRequirements{Requests: list, Limits: list}
		}
		return resizeTo(ctx, t, s, cpu(50), cpu(100))
	}
	whole := &tells{}
	require.NoError(t, raise(t.Context(), whole))
	require.Equal(t, []string{"load", "sandbox s shares=51", "cgroup 50", "sandbox s shares=102", "cgroup 100", "save 100"}, whole.did)
	ctx, cancel := context.WithCancel(t.Context())
	half := &tells{ends: cancel}
	require.ErrorIs(t, raise(ctx, half), context.Canceled)
	require.Equal(t, []string{"load", "sandbox s shares=51", "cgroup 50"}, half.did)
}

// cpuRequest returns a request in millicores without a limit.
func cpuRequest(milli int64) *v1.ResourceRequirements {
	return &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}}
}

// resizeTo resizes the pod level of a pod.
func resizeTo(ctx context.Context, t *testing.T, s *tells, from, to *v1.ResourceRequirements) error {
	t.Helper()
	record, err := Load(s, "1")
	if err != nil {
		return err
	}
	record.actuated.Pod = from
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: v1.PodSpec{Resources: to, Containers: []v1.Container{{Name: "c"}}}}
	return newResizer(t, Config{Runtime: s, Cgroups: s}).Resize(ctx, Request{
		Pod: pod, Status: &observed.Pod{UID: "1"}, Record: record,
		Actions: &actions.Actions{SandboxID: "s", UpdatePodLevelResources: true},
	})
}
