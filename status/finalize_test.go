package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/status/internal/podstatus"
)

func states(statuses []v1.ContainerStatus) (out []string) {
	for _, c := range statuses {
		out = append(out, short(c.State))
	}
	return out
}

const lost = "exit 137 ContainerStatusUnknown"

// statusOf parses the states of init containers and, after a bar, of regular containers: "-" has
// no status, "waits" never started, "again" waits after exit 1, "runs" has started, "begins" runs
// but has not started, "e3" exited with 3, "s1" started and exited with 1.
func statusOf(words string) (s v1.PodStatus) {
	list := &s.InitContainerStatuses
	for i, word := range strings.Fields(words) {
		c := v1.ContainerStatus{Name: string(rune('a' + i))}
		switch {
		case word == "|":
			list = &s.ContainerStatuses
			continue
		case word == "-":
			continue
		case word == "waits":
			c.State = wasWaiting("x")
		case word == "again":
			c.State, c.LastTerminationState = wasWaiting("x"), wasTerminated(1, "")
		case word == "runs":
			c.State, c.Started, c.Ready = wasRunning(), new(true), true
		case word == "begins":
			c.State = wasRunning()
		default:
			c.State = wasTerminated(int32(word[1]-'0'), "")
			if word[0] == 's' {
				c.Started = new(true)
			}
		}
		*list = append(*list, c)
	}
	return s
}

// stateWords returns the states of a final status in the words of statusOf, or "lost".
func stateWords(s v1.PodStatus) string {
	words := []string{}
	for _, state := range append(append(states(s.InitContainerStatuses), "|"), states(s.ContainerStatuses)...) {
		words = append(words, strings.NewReplacer("waiting x", "waits", lost, "lost", "exit ", "e").Replace(state))
	}
	return strings.Join(words, " ")
}

// T35, 6.5: after the release of a pod, containers that may have run have ended with 137.
func TestFinalize(t *testing.T) {
	for _, tc := range []struct{ name, pod, api, in, want string }{
		{"no init containers", "a b c", "", "| waits runs e3", "| lost lost e3"},
		{"T35 never initialized", "i:a i:b d", "", "waits waits | waits", "lost waits | waits"},
		{"the second init ran", "i:a i:b i:c e", "", "waits runs waits | waits", "lost lost waits | waits"},
		{"the last init ran", "i:a i:b d", "", "e0 runs | waits", "e0 lost | waits"},
		{"the second init waits for a restart", "i:a i:b i:c e", "", "waits again waits | waits", "lost lost waits | waits"},
		{"the third init ended", "i:a i:b i:c e", "", "e0 waits e1 | waits", "e0 lost e1 | waits"},
		{"the last init succeeded", "i:a c", "e0", "e0 | waits", "e0 | lost"},
		{"the last init failed", "i:a c", "e1", "e1 | waits", "e1 | waits"},
		{"the last init is a started sidecar", "s:a c", "runs", "runs | waits", "lost | lost"},
		{"the last init is a sidecar that has not started", "s:a c", "begins", "runs | waits", "lost | waits"},
		{"the last init is a sidecar that has ended", "s:a c", "s1", "e1 | waits", "e1 | waits"},
		{"a regular container ran", "i:a c d", "- | runs", "waits | waits waits", "lost | lost lost"},
		{"without statuses", "i:a c", "", "", "|"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod, in := podOf(v1.RestartPolicyAlways, strings.Fields(tc.pod)...), statusOf(tc.in)
			pod.Status = statusOf(tc.api)
			untouched := in.DeepCopy()
			got := podstatus.Finalize(pod, in, now)
			require.True(t, equality.Semantic.DeepEqual(*untouched, in))
			require.Equal(t, tc.want, stateWords(got))
			require.Equal(t, v1.PodFailed, got.Phase)
			require.Contains(t, cond(got, v1.PodReady), "False", "the pod is not ready")
			require.Contains(t, cond(got, v1.ContainersReady), "False")
			require.True(t, equality.Semantic.DeepEqual(got, podstatus.Finalize(pod, got, now.Add(1))), "a second Finalize changes nothing")
		})
	}
}

func TestReject(t *testing.T) {
	s := Reject(podOf(v1.RestartPolicyAlways, "c"), "OutOfcpu", "no cpu left")
	require.Equal(t, v1.PodStatus{
		Phase: v1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: no cpu left",
		QOSClass: v1.PodQOSBestEffort, ObservedGeneration: 1,
	}, s)
}
