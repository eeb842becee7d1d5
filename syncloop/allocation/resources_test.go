package allocation

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// What a pod has is that of its init containers, its containers and itself: requests and limits.
func TestResourcesAreAllOfThem(t *testing.T) {
	base := newPod("a", with("1", "1Mi", "limits"))
	base.Spec.InitContainers = []v1.Container{{Name: "i", Resources: with("1", "")}}
	whole := with("2", "")
	for name, change := range map[string]func(*v1.Pod){
		"requests":       func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = with("2", "1Mi").Requests },
		"limits":         func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = with("2", "1Mi").Requests },
		"init container": func(p *v1.Pod) { p.Spec.InitContainers[0].Resources = with("2", "") },
		"pod":            func(p *v1.Pod) { p.Spec.Resources = &whole },
	} {
		changed := base.DeepCopy()
		change(changed)
		require.False(t, Of(base).Equal(Of(changed)), name)
		require.False(t, Of(base).Describes(changed), name)
		require.False(t, Of(changed).Describes(base), name)
		require.Equal(t, changed, Of(changed).Apply(base), name)
		require.True(t, Of(changed).Describes(changed), name)
	}
	more, other := base.DeepCopy(), with("3", "")
	more.Spec.Resources = &other
	same := base.DeepCopy()
	same.Spec.Resources = &whole
	require.False(t, Of(more).Equal(Of(same)))
	require.False(t, Of(more).Describes(same))
}
