package podsource

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// S4: the pods of a set are copies that say where they are from and when they were seen first;
// one that has another name is another pod.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerger(t, MergerConfig{})
		set := func(given ...*v1.Pod) (out []*v1.Pod) {
			require.NoError(t, m.Set("s", given))
			out, _ = m.Pods("s")
			require.Len(t, out, len(given))
			for i, pod := range out {
				require.NotSame(t, given[i], pod)
				require.Equal(t, given[i].Name, pod.Name)
				require.Equal(t, "s", pod.Annotations[podfacts.ConfigSource])
				require.NotContains(t, given[i].Annotations, podfacts.ConfigSource)
			}
			return out
		}
		seen := func(pod *v1.Pod) string { return pod.Annotations[podfacts.ConfigSeen] }
		annotated := newPod("b", "2", func(pod *v1.Pod) { pod.Annotations = map[string]string{"mine": "1"} })
		first := time.Now().Format(time.RFC3339Nano)
		pods := set(newPod("a", "1"), annotated)
		require.Equal(t, []string{first, first, "1"}, []string{seen(pods[0]), seen(pods[1]), pods[1].Annotations["mine"]})
		time.Sleep(time.Second)
		later := time.Now().Format(time.RFC3339Nano)
		pods = set(newPod("a", "1"), newPod("c", "2"), newPod("d", "3"))
		require.Equal(t, []string{first, later, later}, []string{seen(pods[0]), seen(pods[1]), seen(pods[2])})
	})
}

// A pod that nobody changes is copied once, and shares with its copy what is large; what
// may have been changed is copied anew.
func TestAdoptConstant(t *testing.T) {
	m := newMerger(t, MergerConfig{})
	read := func() *v1.Pod {
		pods, _ := m.Pods("s")
		require.Len(t, pods, 1)
		return pods[0]
	}
	given := newPod("a", "1", image("x"), func(pod *v1.Pod) { pod.Annotations = map[string]string{"mine": "1"} })
	require.NoError(t, m.SetConstant("s", []*v1.Pod{given}))
	first := read()
	require.NotSame(t, given, first)
	require.NoError(t, m.SetConstant("s", []*v1.Pod{given}))
	require.Same(t, first, read())
	require.Same(t, &given.Spec.Containers[0], &first.Spec.Containers[0])
	require.Equal(t, map[string]string{"mine": "1"}, given.Annotations)
	require.Equal(t, "1", first.Annotations["mine"])
	require.NoError(t, m.Set("s", []*v1.Pod{given}))
	given.Spec.Containers[0].Image = "y"
	require.Equal(t, "x", read().Spec.Containers[0].Image)
	require.NoError(t, m.Set("s", []*v1.Pod{given}))
	require.Equal(t, "y", read().Spec.Containers[0].Image)
}
