package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/status"
)

// The time of a pod with an active deadline goes on while the agent is down.
func TestActiveDeadlineAcrossARestart(t *testing.T) {
	for name, down := range map[string]time.Duration{"during": 30 * time.Second, "after": 10 * time.Second} {
		t.Run("it passes "+name+" the restart", func(t *testing.T) {
			inWorld(t, fake.Config{}, func(w *world) {
				pod, deadline := podOf("1", v1.RestartPolicyAlways, "a"), int64(60)
				pod.Spec.ActiveDeadlineSeconds = &deadline
				w.set(pod)
				w.start()
				w.sleep(40 * time.Second)
				w.crash()
				w.sleep(down)
				w.start()
				if left := 20*time.Second - down; left > 0 {
					w.sleep(left - 10*time.Millisecond)
					require.Equal(t, v1.PodRunning, w.agent.statuses.Get("1").Phase)
					w.sleep(10 * time.Millisecond) // to the moment, but for what the start took
				}
				w.sleep(100 * time.Millisecond)
				s := w.agent.statuses.Get("1")
				require.Equal(t, []string{string(v1.PodFailed), status.ReasonDeadlineExceeded}, []string{string(s.Phase), s.Reason})
				w.sleep(time.Minute)
				require.Empty(t, w.running())
			})
		})
	}
}
