package vmfleet

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/plegtest"
	"github.com/podwright/podwright/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Users copy these files, so they must stay short.
func TestFilesAreShort(t *testing.T) {
	for _, file := range []string{"agent.go", "hypervisor.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Less(t, bytes.Count(text, []byte("\n")), 200, file)
	}
}

// fleet is a hypervisor with its agent and the published statuses.
type fleet struct {
	t *testing.T
	*Hypervisor
	pods chan []*v1.Pod
	stop func()

	mu       sync.Mutex
	received map[types.UID]*v1.PodStatus
	deleted  []types.UID
}

// inBubble runs a test with a hypervisor. Its images run until the power button is pressed, crash
// after a minute, exit after a second, or ignore the button.
func inBubble(t *testing.T, test func(t *testing.T, f *fleet)) {
	// In a bubble with a busy agent time does not pass, so the limit must be outside.
	bound := time.AfterFunc(2*time.Minute, func() { panic(t.Name() + ": the agent never becomes idle") })
	defer bound.Stop()
	synctest.Test(t, func(t *testing.T) {
		end, cutPower := context.WithCancel(context.Background())
		f := &fleet{t: t, received: map[types.UID]*v1.PodStatus{}, Hypervisor: &Hypervisor{Images: map[string]Guest{
			"steady": func(powered context.Context) int32 { <-powered.Done(); return 0 },
			"crash":  func(context.Context) int32 { time.Sleep(time.Minute); return 3 },
			"once":   func(context.Context) int32 { time.Sleep(time.Second); return 0 },
			"stuck":  func(context.Context) int32 { <-end.Done(); return 1 },
		}}}
		f.start()
		defer func() {
			f.stop()
			cutPower()
			for uid := range f.machines {
				require.NoError(t, f.Shutdown(context.Background(), uid, time.Hour))
			}
		}()
		test(t, f)
	})
}

func (f *fleet) start() {
	f.pods = make(chan []*v1.Pod)
	a, err := New(Config{
		Hypervisor: f.Hypervisor, Pods: f.pods,
		Sink: follower{f.receive, f}, Saved: f.status,
	})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	f.stop = func() { cancel(); require.NoError(f.t, <-done) }
}

// follower passes statuses and deletions to a fleet.
type follower struct {
	status.SinkFunc
	f *fleet
}

func (f *fleet) receive(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received[pod.UID] = s
	return nil
}

func (r follower) ReceiveDeletion(_ context.Context, pod *v1.Pod) error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.deleted = append(r.f.deleted, pod.UID)
	return nil
}

// set delivers the desired pods and lets some time pass.
func (f *fleet) set(passes time.Duration, pods ...*v1.Pod) {
	f.pods <- pods
	time.Sleep(passes)
	synctest.Wait()
}

func (f *fleet) status(uid types.UID) *v1.PodStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.received[uid]
}

func (f *fleet) container(uid types.UID) v1.ContainerStatus {
	f.t.Helper()
	require.NotNil(f.t, f.status(uid))
	require.Len(f.t, f.status(uid).ContainerStatuses, 1)
	return f.status(uid).ContainerStatuses[0]
}

func pod(name, image string, policy v1.RestartPolicy) *v1.Pod {
	grace := int64(5)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(name), Name: name, Namespace: "fleet"},
		Spec: v1.PodSpec{
			RestartPolicy: policy, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{{Name: "machine", Image: image}},
		},
	}
}

func TestMachineOfAPod(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		begin := time.Now()
		f.set(time.Second, pod("a", "steady", v1.RestartPolicyAlways))
		require.Equal(t, v1.PodRunning, f.status("a").Phase)
		require.True(t, f.container("a").Ready)
		require.Equal(t, "10.0.0.1", f.status("a").PodIP)
		require.Zero(t, f.container("a").RestartCount)
		for _, c := range f.status("a").Conditions {
			require.Equal(t, v1.ConditionTrue, c.Status, c.Type)
		}
		require.WithinDuration(t, begin, f.status("a").StartTime.Time, 2*time.Second)

		f.set(time.Second)
		require.Equal(t, int32(0), f.container("a").State.Terminated.ExitCode)
		f.set(3 * time.Second)
		require.Empty(t, f.machines, "the machine of a removed pod is destroyed")
		require.Equal(t, []types.UID{"a"}, f.deleted)
	})
}

// A machine that crashes is booted again after 10 s, 20 s and 40 s. A machine that exited
// successfully is not, even after further syncs.
func TestRestartsOfMachines(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		both := []*v1.Pod{pod("a", "crash", v1.RestartPolicyAlways), pod("b", "once", v1.RestartPolicyNever)}
		f.set(time.Minute+time.Second, both...)
		c := f.container("a")
		require.Equal(t, "CrashLoopBackOff", c.State.Waiting.Reason)
		require.Equal(t, int32(3), c.LastTerminationState.Terminated.ExitCode)
		require.Equal(t, v1.PodSucceeded, f.status("b").Phase)
		f.set(4*time.Minute, both...)
		c = f.container("a")
		require.NotNil(t, c.State.Running)
		require.Equal(t, int32(3), c.RestartCount)
		require.Contains(t, f.machines, types.UID("b"), "the machine of a completed pod is kept")
		require.Zero(t, f.container("b").RestartCount)
	})
}

// Machines continue to run across restarts of the agent, and none is booted twice.
func TestAgentIsStartedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a, b, c := pod("a", "steady", v1.RestartPolicyAlways), pod("b", "once", v1.RestartPolicyNever), pod("c", "crash", v1.RestartPolicyAlways)
		f.set(61*time.Second, a, b, c, pod("gone", "steady", v1.RestartPolicyAlways))
		before, started := f.container("a"), f.status("a").StartTime
		require.Equal(t, "CrashLoopBackOff", f.container("c").State.Waiting.Reason)

		f.stop()
		f.start()
		f.set(time.Second, a, b, c)
		require.Equal(t, before, f.container("a"))
		require.True(t, started.Equal(f.status("a").StartTime))
		require.Equal(t, v1.PodSucceeded, f.status("b").Phase)
		require.Zero(t, f.container("b").RestartCount, "a successful machine is not booted again")
		require.Equal(t, "CrashLoopBackOff", f.container("c").State.Waiting.Reason, "the back-off continues")
		f.set(20*time.Second, a, b, c)
		require.Equal(t, int32(1), f.container("c").RestartCount)
		require.NotContains(t, f.machines, types.UID("gone"), "an orphaned machine is destroyed")
	})
}

func TestStuckMachineIsPoweredOff(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.set(time.Second, pod("a", "stuck", v1.RestartPolicyAlways))
		f.set(4 * time.Second)
		require.NotNil(t, f.container("a").State.Running, "within the grace period of 5 s")
		f.set(2 * time.Second)
		require.Equal(t, int32(137), f.container("a").State.Terminated.ExitCode)
		f.set(2 * time.Second)
		require.Empty(t, f.machines)
	})
}

func TestInvalidMachinesAreRejected(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		two := pod("b", "steady", v1.RestartPolicyAlways)
		two.Spec.Containers = append(two.Spec.Containers, two.Spec.Containers[0])
		f.set(time.Second, pod("a", "nothing", v1.RestartPolicyAlways), two)
		require.Equal(t, "BootFailed", f.container("a").State.Waiting.Reason)
		require.Contains(t, f.container("a").State.Waiting.Message, `image "nothing"`)
		require.Empty(t, f.machines)
	})
}

// starter adapts a hypervisor to the conformance suite.
type starter struct{ *Hypervisor }

func (s starter) Start(ctx context.Context, uid types.UID) error {
	return s.Boot(ctx, pod(string(uid), "steady", v1.RestartPolicyAlways))
}
func (s starter) Exit(ctx context.Context, uid types.UID) error {
	return s.Shutdown(ctx, uid, time.Minute)
}
func (s starter) Remove(ctx context.Context, uid types.UID) error {
	err := s.Shutdown(ctx, uid, time.Minute)
	s.Destroy(uid)
	return err
}

func TestHypervisorIsARuntime(t *testing.T) {
	plegtest.Run(t, plegtest.Config{Start: func(*testing.T) plegtest.Subject {
		h := &Hypervisor{Images: map[string]Guest{"steady": func(powered context.Context) int32 { <-powered.Done(); return 0 }}}
		return plegtest.Subject{Runtime: h, Pods: starter{h}}
	}})
}
