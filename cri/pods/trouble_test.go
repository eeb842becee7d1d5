package pods

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/pleg/observed"
)

// If the runtime returns Unknown for a call, the user sees the reason and the event on this pod
// alone, until the runtime recovers.
func TestRuntimeAnswersUnknown(t *testing.T) {
	for call, want := range map[string]struct{ event, reason string }{
		"RunPodSandbox":   {"FailedCreatePodSandBox ", ""},
		"CreateContainer": {"Failed spec.containers{a}", ReasonCreateContainerError},
		"StartContainer":  {"Failed spec.containers{a}", ReasonRunContainerError},
	} {
		t.Run(call, func(t *testing.T) {
			h := newHarness(t, fake.Config{})
			pod, other := testPod("a"), testPod("b")
			other.UID, other.Name = "2", "other"
			h.runtime.before = func(_ context.Context, got, target string) error {
				if got == call && !strings.HasPrefix(target, "b") && !strings.HasPrefix(target, "other") {
					return status.Error(codes.Unknown, "something is wrong")
				}
				return nil
			}
			for range 3 {
				result := h.sync(pod)
				require.Equal(t, codes.Unknown, status.Code(result.Err()))
				require.Contains(t, h.takeEvents(), want.event)
				require.Equal(t, want.reason, h.m.StartFailures(pod.UID)["a"].Reason)
			}
			require.Len(t, h.mustSync(other).Running(), 1)
			h.runtime.before = nil
			require.Len(t, h.mustSync(pod).Running(), 1)
			require.Empty(t, h.m.StartFailures(pod.UID))
			require.EqualValues(t, 0, h.status(pod).Newest("a").RestartCount)
		})
	}
}

// If the status of a new sandbox cannot be read, the next sync finds the sandbox and creates no
// second one.
func TestSandboxStatusFails(t *testing.T) {
	fails := true
	h := newHarness(t, fake.Config{Intercept: func(_ context.Context, call string, _ any) error {
		if call == "PodSandboxStatus" && fails {
			return status.Error(codes.Unknown, "no")
		}
		return nil
	}})
	pod := testPod("a")
	require.Error(t, h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: &observed.Pod{UID: pod.UID}}).Err())
	require.Equal(t, []string{"FailedPodSandBoxStatus "}, h.takeEvents())
	fails = false
	got := h.mustSync(pod)
	require.Len(t, got.Sandboxes, 1)
	require.Len(t, got.Running(), 1)
}

// W31: the deletion of a pod abandons its pull, and the container never starts, even if the image
// arrives later. Another pod's pull continues.
func TestDeletedWhilePulling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pull, err := fake.Registry(fake.RemoteImage{Image: fake.Image{Name: "slow:1", Size: 60 << 20}, BytesPerSecond: 1 << 20})
		require.NoError(t, err)
		rt, err := fake.New(fake.Config{Pull: pull})
		require.NoError(t, err)
		defer rt.Close()
		manager, err := images.New(images.Config{Service: rt, MaxParallelPulls: 2})
		require.NoError(t, err)
		h := harnessOn(t, rt, Config{RuntimeName: "fake", Images: manager})
		pod, other := testPod("a"), testPod("b")
		other.UID, other.Name = "2", "other"
		pod.Spec.Containers[0].Image, other.Spec.Containers[0].Image = "slow:1", "slow:1"
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan Result)
		var steps []string
		go func() {
			done <- h.m.SyncPod(ctx, SyncRequest{Pod: pod, Status: h.status(pod), OnStep: func(s string) { steps = append(steps, s) }})
		}()
		both := make(chan Result)
		go func() { both <- h.sync(other) }()
		time.Sleep(10 * s)
		begin := time.Now()
		cancel()
		result := <-done
		require.ErrorIs(t, result.Err(), context.Canceled)
		require.Zero(t, time.Since(begin))
		require.Empty(t, h.m.StartFailures(pod.UID))
		require.Contains(t, strings.Join(steps, "\n"), "pulling image slow:1")
		result = <-both
		require.NoError(t, result.Err())
		require.Empty(t, h.status(pod).Containers)
		require.Len(t, h.status(other).Running(), 1)
	})
}

// If the runtime permanently refuses to remove a container whose start was cut off, the pod's
// error contains a remedy after some consecutive attempts, and an event contains it once.
func TestContainerThatCannotBeRemoved(t *testing.T) {
	gone, stuck := status.Error(codes.Unavailable, "not there for a moment"), status.Error(codes.Unknown, "cannot delete running task")
	rules, err := fake.NewRules(0,
		fake.Rule{Call: "StartContainer", Nth: 1, Err: status.Error(codes.Unknown, "cut off")},
		fake.Rule{Call: "RemoveContainer", Nth: 4, Err: gone},
		fake.Rule{Call: "RemoveContainer", Times: 9, Err: stuck})
	require.NoError(t, err)
	h := newHarness(t, fake.Config{Intercept: rules.Intercept})
	var events []string
	h.cfg.Event = func(_ v1.ObjectReference, _, reason, message string) { events = append(events, reason+": "+message) }
	h.restart()
	pod := testPod("a")
	require.ErrorContains(t, h.sync(pod).Err(), "cut off")
	id := h.status(pod).Newest("a").ID.ID
	events = nil
	for try := 1; try <= 9; try++ {
		text := h.sync(pod).Err().Error()
		remedy := "the runtime has refused 5 times in a row to remove container a (" + id + "): "
		if try < 6 { // the 4th does not count
			require.NotContains(t, text, "in a row", try)
			require.Empty(t, events)
			continue
		}
		require.Contains(t, text, "runc init", try)
		require.Contains(t, text, "restart the runtime")
		require.Len(t, events, 1)
		require.Contains(t, events[0], "FailedRemoveContainer: "+remedy)
	}
	h.mustSync(pod)
	require.Empty(t, h.m.refusals.counts)
}

// Retain drops the refusals of removed containers.
func TestRefusalsAreForgotten(t *testing.T) {
	var r refusals
	for range 7 {
		r.add("a")
	}
	require.Equal(t, 1, r.add("b"))
	r.retain(map[string]bool{"a": true})
	require.Equal(t, 8, r.add("a"))
	require.Equal(t, 1, r.add("b"))
	r.forget("a")
	r.forget("b")
	require.Empty(t, r.counts)
}

// doubtful is a runtime that lists each object twice, or whose ready sandboxes have no address.
type doubtful struct {
	cri.RuntimeService
	twice, noAddress bool
}

func (d *doubtful) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	list, err := d.RuntimeService.ListPodSandbox(ctx, filter)
	if d.twice {
		list = append(list, list...)
	}
	return list, err
}

func (d *doubtful) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	list, err := d.RuntimeService.ListContainers(ctx, filter)
	if d.twice {
		list = append(list, list...)
	}
	return list, err
}

func (d *doubtful) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	response, err := d.RuntimeService.PodSandboxStatus(ctx, id, verbose)
	if err == nil && d.noAddress {
		response.Status.Network = &runtimeapi.PodSandboxNetworkStatus{}
	}
	return response, err
}

// Objects that are listed twice count once. Sandboxes without an address are replaced with
// back-off, and each is stopped once. The first replacement is immediate.
func TestDoubtfulSandboxes(t *testing.T) {
	for name, tc := range map[string]struct {
		runtime    doubtful
		runs, most int
	}{
		"listed twice": {doubtful{twice: true}, 1, 1},
		"no address":   {doubtful{noAddress: true}, 3, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, fake.Config{})
				tc.runtime.RuntimeService = h.runtime.RuntimeService
				h.runtime.RuntimeService = &tc.runtime
				pod := testPod("a")
				var runs, stops int
				for range 80 {
					result := h.sync(pod)
					if at := result.NotBefore(); !at.IsZero() {
						require.ErrorContains(t, result.Err(), "back-off")
						require.True(t, at.After(time.Now()))
					}
					for _, call := range h.runtime.take() {
						switch call, _, _ := strings.Cut(call, " "); call {
						case "RunPodSandbox":
							runs++
						case "StopPodSandbox":
							stops++
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				require.GreaterOrEqual(t, runs, tc.runs)
				require.LessOrEqual(t, runs, tc.most)
				require.Contains(t, []int{runs - 1, runs}, stops)
				if tc.runtime.noAddress {
					tc.runtime.noAddress = false
					for range 2 {
						h.sync(pod)
						time.Sleep(time.Minute)
					}
					require.Len(t, h.mustSync(pod).Running(), 1)
				}
			})
		})
	}
}
