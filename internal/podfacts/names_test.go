package podfacts

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestCheckNames(t *testing.T) {
	good := func() *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns-1", Name: "web.a-1", UID: "0aF_-.z"},
			Spec: v1.PodSpec{
				InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "c-1"}}, Volumes: []v1.Volume{{Name: "v"}},
				EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
			},
		}
	}
	require.NoError(t, CheckNames(good()))
	for _, bad := range []string{"", ".", "..", "../x", "a/b", "a/../b", "/", "a\x00", "-a", "a-", "a.", ".a", "ä", "a b", strings.Repeat("a", 254)} {
		for field, set := range map[string]func(*v1.Pod){
			"metadata.uid":           func(p *v1.Pod) { p.UID = types.UID(bad) },
			"metadata.namespace":     func(p *v1.Pod) { p.Namespace = bad },
			"metadata.name":          func(p *v1.Pod) { p.Name = bad },
			"name of a container":    func(p *v1.Pod) { p.Spec.EphemeralContainers[0].Name = bad },
			"spec.volumes[0].name":   func(p *v1.Pod) { p.Spec.Volumes[0].Name = bad },
			"name of a container: I": func(p *v1.Pod) { p.Spec.InitContainers[0].Name = bad },
		} {
			pod := good()
			set(pod)
			require.ErrorContains(t, CheckNames(pod), field, "%q", bad)
		}
	}
}

// The fast checks have the results of the API server's checks.
func TestNameFormsEqualTheAPIServers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3_000 {
		b := make([]byte, r.IntN(8))
		for i := range b {
			b[i] = "ab09-._AZ/"[r.IntN(10)]
		}
		text := strings.Repeat(string(b), 1+r.IntN(2)*r.IntN(40))
		require.Equal(t, len(validation.IsDNS1123Label(text)) == 0, isLabel(text), "%q", text)
		require.Equal(t, len(validation.IsDNS1123Subdomain(text)) == 0, isSubdomain(text), "%q", text)
	}
}
