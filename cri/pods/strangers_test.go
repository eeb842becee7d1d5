package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg"
)

// runningNames are the containers that run in a pod, by the name of their sandbox.
func runningNames(s *pleg.PodStatus) []string {
	sandboxes := map[string]string{}
	for _, sb := range s.Sandboxes {
		sandboxes[sb.ID] = sb.Namespace + "/" + sb.Name
	}
	var out []string
	for _, c := range s.Running() {
		out = append(out, sandboxes[c.SandboxID]+" "+c.Name)
	}
	return out
}

// A manifest with a fixed UID is changed while the agent is down: nothing runs on that
// it does not name.
func TestChangedUnderTheSameUID(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		want   []string
	}{
		"container renamed": {func(p *v1.Pod) { p.Spec.Containers[1].Name = "c" }, []string{"shop/web c", "shop/web a"}},
		"pod renamed":       {func(p *v1.Pod) { p.Name = "new" }, []string{"shop/new b", "shop/new a"}},
		"pod renamed, which never restarts": {func(p *v1.Pod) {
			p.Name = "new"
			p.Spec.RestartPolicy = v1.RestartPolicyNever
		}, []string{"shop/new b", "shop/new a"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, fake.Config{})
			pod := testPod("a", "b")
			h.mustSync(pod)
			h.restart()
			changed := pod.DeepCopy()
			tc.change(changed)
			status := h.mustSync(changed)
			require.ElementsMatch(t, tc.want, runningNames(status))
			require.Equal(t, changed.Name, status.Name)
			require.Equal(t, 1, readySandboxes(status))
			require.False(t, h.m.SyncPod(t.Context(), SyncRequest{Pod: changed, Status: status}).Acted())
		})
	}
}
