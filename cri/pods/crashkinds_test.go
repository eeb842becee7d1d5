package pods

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg/observed"
)

// dieAfter makes the agent die at the nth call that changes something: the call has
// its effect, and nothing that the agent does afterwards has any. It tells whether
// it came to that.
func (h *harness) dieAfter(n int) (died func() bool) {
	var mu sync.Mutex // containers are stopped at the same time
	seen, dead := 0, false
	h.runtime.before = func(context.Context, string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return errLost
		}
		return nil
	}
	h.runtime.after = func(string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen == n {
			dead = true
		}
		if dead {
			return errLost
		}
		return nil
	}
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return dead
	}
}

// reborn is the next agent.
func (h *harness) reborn() {
	h.runtime.before, h.runtime.after = nil, nil
	h.restart()
}

// settle syncs until there is nothing left to do.
func settle(t *testing.T, h *harness, pod *v1.Pod) *observed.Pod {
	t.Helper()
	for range 20 {
		synctest.Wait()
		h.runtime.take()
		result := h.sync(pod)
		if at := result.NotBefore(); !at.IsZero() { // two reboots in a row are a crash loop
			time.Sleep(time.Until(at))
			continue
		}
		require.NoError(t, result.Err())
		if !result.Acted() && result.Explanation() == "" {
			return h.status(pod)
		}
	}
	t.Fatal("it does not settle")
	return nil
}

// requireUp is a pod with containers of every kind that is complete. With lost it may
// have lost init containers that were done.
func requireUp(t *testing.T, status *observed.Pod, lost bool) {
	t.Helper()
	current := status.Sandboxes[0].ID
	for _, name := range []string{"s1", "a", "b"} {
		require.Len(t, instances(status, name, observed.StateRunning), 1, name)
		require.Equal(t, current, status.Newest(name).SandboxID, name)
	}
	for _, name := range []string{"i0", "i2"} {
		if lost && status.Newest(name) == nil {
			continue
		}
		require.Len(t, instances(status, name, observed.StateExited), 1, name)
		require.Equal(t, current, status.Newest(name).SandboxID, "the network of %s", name)
		for _, regular := range []string{"a", "b"} {
			require.False(t, status.Newest(regular).StartedAt.Before(status.Newest(name).FinishedAt), "%s before %s", regular, name)
		}
	}
	for _, c := range status.Containers {
		require.NotEqual(t, observed.StateCreated, c.State, c.Name)
	}
}

// The agent dies at each call while all containers are restarted together: in the
// end they have been, once or more, and run.
func TestDeathWhileRestartingAll(t *testing.T) {
	for n := range 5 {
		synctest.Test(t, func(t *testing.T) {
			ended := false
			once := func(ctx context.Context, p *fake.Process) int {
				if !ended {
					ended = true
					return 42
				}
				return fake.SleepUntilStopped(ctx, p)
			}
			h := newHarness(t, fake.Config{Programs: programs(map[string]fake.Program{"i0": fake.Exit(0), "a": once})})
			pod := initPod(testPod("a", "b"), "i0", "s1")
			restartsAllOn(&pod.Spec.Containers[0], 42)
			for range 4 {
				h.mustSync(pod)
				synctest.Wait()
				if c := h.status(pod).Newest("a"); c != nil && c.State == observed.StateExited {
					break
				}
			}
			require.Equal(t, observed.StateExited, h.status(pod).Newest("a").State)
			h.dieAfter(n + 1)
			h.sync(pod)
			h.reborn()
			status := settle(t, h, pod)
			for _, name := range strings.Fields("i0 s1 a b") {
				require.EqualValues(t, 1, status.Newest(name).RestartCount, name)
			}
			require.Len(t, status.Running(), 3)
		})
	}
}

func restartsAllOn(c *v1.Container, code int32) {
	c.RestartPolicy = ptr(v1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code}},
	}}
}
