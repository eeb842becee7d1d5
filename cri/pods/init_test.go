package pods

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/resize"
)

// initPod adds init containers to a pod. A name that begins with "s" is a sidecar's.
func initPod(pod *v1.Pod, names ...string) *v1.Pod {
	for _, name := range names {
		c := v1.Container{Name: name, Image: "busybox", TerminationMessagePath: "/dev/termination-log"}
		if strings.HasPrefix(name, "s") {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

func withEphemeral(pod *v1.Pod, name, target string) *v1.Pod {
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "busybox"}, TargetContainerName: target,
	})
	return pod
}

// initEnds is a runtime whose plain init containers (i...) exit with 0 at once, while all others
// run until they are stopped.
func initEnds() fake.Config {
	return fake.Config{Programs: programs(map[string]fake.Program{"i0": fake.Exit(0), "i1": fake.Exit(0), "i2": fake.Exit(0)})}
}

// programs chooses a program by container name. All others run until they are stopped.
func programs(byName map[string]fake.Program) fake.Resolver {
	return fake.ByContainer(byName, fake.SleepUntilStopped)
}

// A plain init container that fails to start ends the sync: no further container starts. Resizes
// precede it. A sidecar that fails to start does not end it.
func TestInitStartFails(t *testing.T) {
	refuse := func(target string) func(context.Context, string, string) error {
		return failing("CreateContainer", target, status.Error(codes.Unknown, "no"))
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{Programs: programs(map[string]fake.Program{"i1": fake.Exit(1)})})
		h.cfg.Actuated = resize.NewMemory()
		h.restart()
		pod := initPod(testPod("a"), "s0", "i1")
		pod.Spec.InitContainers[0].Resources = needs(100, 100)
		h.mustSync(pod)
		pod.Spec.InitContainers[0].Resources = needs(200, 100)
		h.takeEvents()
		h.runtime.take()
		h.runtime.before = refuse("i1/")
		result := h.sync(pod)
		require.Len(t, result.Entries, 2)
		require.Equal(t, ActionResizePodInPlace, result.Entries[0].Action)
		require.NoError(t, result.Entries[0].Err)
		require.Equal(t, ActionInitContainer, result.Entries[1].Action)
		require.Equal(t, ReasonCreateContainerError, h.m.StartFailures(pod.UID)["i1"].Reason)
		require.Contains(t, h.takeEvents(), "Failed spec.initContainers{i1}")
		require.Equal(t, []string{"CreateContainer i1/0"}, h.runtime.take())
		h.runtime.before = nil
		result = h.sync(pod)
		require.NoError(t, result.Err())
		require.Len(t, result.Entries, 1, "the resize is not repeated")
	})
	h := newHarness(t, fake.Config{})
	pod := initPod(testPod("a"), "s0")
	require.Len(t, runPod(t, h, pod).Running(), 2)
	require.NoError(t, h.runtime.RuntimeService.StopContainer(t.Context(), h.status(pod).Newest("s0").ID.ID, s))
	pod.Spec.Containers[0].Image = "busybox:next"
	h.runtime.before = refuse("s0/")
	require.Error(t, h.sync(pod).Err())
	require.ElementsMatch(t, []string{"StopContainer a 30s", "CreateContainer s0/1", "CreateContainer a/1", "StartContainer a"}, h.runtime.take())
}

// Section 5: only the newest instance of a crashing init container is kept, and its restart count
// continues. C20 applies to it, too.
func TestInitIsPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{Programs: programs(map[string]fake.Program{"i0": fake.Exit(1)})})
		pod := initPod(testPod("a"), "i0")
		delays := crashOf(t, h, pod, "i0", 4)
		require.Equal(t, 20*s, delays[3])
		synctest.Wait()
		require.False(t, h.sync(pod).NotBefore().IsZero(), "it waits for the end of its back-off")
		require.Contains(t, h.takeEvents(), "BackOff spec.initContainers{i0}")
		status := h.status(pod)
		require.Len(t, status.Containers, 1)
		require.EqualValues(t, 3, status.Newest("i0").RestartCount)
		require.Equal(t, []string{"3.log"}, files(t, filepath.Dir(status.Newest("i0").LogPath), "*"))
	})
}

// C8: after a reboot the pod has exited containers and a dead sandbox. Init containers run again
// before the regular ones, and their restart counts continue even if the agent dies.
func TestInitRunsAgainInNewSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, initEnds())
		pod := initPod(testPod("a"), "i0")
		h.mustSync(pod)
		synctest.Wait()
		up := h.mustSync(pod)
		require.NoError(t, h.runtime.RuntimeService.StopPodSandbox(t.Context(), up.Sandboxes[0].ID))
		h.runtime.before = failing("RemoveContainer", "", errLost)
		require.ErrorIs(t, h.sync(pod).Err(), errLost)
		require.NotContains(t, h.runtime.take(), "RunPodSandbox web/1", "leftovers of the initialisation delay the new sandbox")
		h.runtime.before = failing("RunPodSandbox", "", errLost)
		h.sync(pod)
		require.Equal(t, []string{"RemoveContainer i0", "RunPodSandbox web/1"}, h.runtime.take(), "a stopped sandbox is not stopped again")
		h.runtime.before = nil
		h.restart()
		h.mustSync(pod)
		synctest.Wait()
		require.EqualValues(t, 1, h.status(pod).Newest("i0").RestartCount, "its log told")
		require.Empty(t, h.status(pod).Running(), "the regular container waits")
		require.Len(t, h.mustSync(pod).Running(), 1)
	})
}

// Ephemeral containers start in a running pod, share the processes of their target, and block no
// other container if they fail.
func TestEphemeral(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	up := h.mustSync(pod)
	withEphemeral(pod, "debug", "a")
	withEphemeral(pod, "lost", "nobody")
	pod.Spec.Containers = append(pod.Spec.Containers, testPod("b").Spec.Containers...)
	h.runtime.take()
	h.takeEvents()
	result := h.sync(pod)
	require.Equal(t, []string{"CreateContainer debug/0", "StartContainer debug", "CreateContainer b/0", "StartContainer b"}, h.runtime.take())
	require.ErrorContains(t, result.Err(), "nobody")
	require.Equal(t, podwright.Reason{Reason: ReasonCreateContainerConfigError, Message: "unable to find target container nobody"}, h.m.StartFailures(pod.UID)["lost"])
	require.Subset(t, h.takeEvents(), []string{"Started spec.ephemeralContainers{debug}", "Failed spec.ephemeralContainers{lost}"})
	target, err := (&podSync{req: SyncRequest{Pod: pod, Status: up}}).processesOf(ephemeralContainer(pod, 0))
	require.NoError(t, err)
	require.Equal(t, up.Newest("a").ID.ID, target)

	debug := h.status(pod).Newest("debug").ID.ID
	require.NoError(t, h.runtime.RuntimeService.StopContainer(t.Context(), debug, 0))
	h.runtime.take()
	h.sync(pod)
	require.Empty(t, h.runtime.take(), "it runs once")
}

// onDemand is a program that exits with the received code.
func onDemand() (chan<- int, fake.Program) {
	exit := make(chan int, 1)
	return exit, func(ctx context.Context, _ *fake.Process) int {
		select {
		case code := <-exit:
			return code
		case <-ctx.Done():
			return 0
		}
	}
}

// C19: all containers are removed, the triggering one last; logs and sandbox stay; and the next
// sync begins with the first init container.
func TestRestartAllContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exit, trigger := onDemand()
		h := newHarness(t, fake.Config{Programs: programs(map[string]fake.Program{"i0": fake.Exit(0), "a": trigger})})
		pod := initPod(testPod("a", "b"), "i0", "s1")
		restartsAllOn(&pod.Spec.Containers[0], 42)
		for range 4 {
			h.mustSync(pod)
			synctest.Wait()
		}
		before := h.status(pod)
		require.Len(t, before.Running(), 3)
		exit <- 42
		synctest.Wait()
		h.runtime.take()
		result := h.sync(pod)
		require.NoError(t, result.Err())
		require.True(t, result.Again())
		calls := h.runtime.take()
		require.Contains(t, calls, "StopContainer b 2s")
		require.Equal(t, "RemoveContainer a", calls[len(calls)-1], "the trigger goes last")
		require.Empty(t, h.status(pod).Containers)
		for _, c := range before.Containers {
			require.FileExists(t, c.LogPath)
		}
		for range 4 {
			h.mustSync(pod)
			synctest.Wait()
		}
		after := h.status(pod)
		require.Equal(t, before.Sandboxes, after.Sandboxes)
		require.Len(t, after.Running(), 3)
		for _, name := range []string{"i0", "s1", "a", "b"} {
			require.EqualValues(t, 1, after.Newest(name).RestartCount, name)
		}
		require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, stopAll(t, h, pod)))
		require.Empty(t, files(t, h.dir, "pods", "*"))
		require.Empty(t, files(t, h.dir, "containers", "*"))
	})
}

// A restart of all containers ends their back-offs.
func TestRestartAllEndsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exit, trigger := onDemand()
		h := newHarness(t, fake.Config{Programs: programs(map[string]fake.Program{"a": trigger, "b": fake.Exit(1)})})
		pod := testPod("a", "b")
		restartsAllOn(&pod.Spec.Containers[0], 42)
		for range 3 {
			h.sync(pod)
			synctest.Wait()
		}
		require.Equal(t, ReasonCrashLoopBackOff, h.m.StartFailures(pod.UID)["b"].Reason)
		exit <- 42
		synctest.Wait()
		require.True(t, h.sync(pod).Again())
		require.Empty(t, h.m.HeldBack(pod.UID))
		require.NoError(t, h.sync(pod).Err())
		require.EqualValues(t, 2, h.status(pod).Newest("b").RestartCount)
	})
}
