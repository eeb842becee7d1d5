package podfacts

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCheckIdentity(t *testing.T) {
	whole := v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "n", Namespace: "ns"}}
	require.NoError(t, CheckIdentity(&whole))
	require.ErrorContains(t, CheckIdentity(nil), "nil")
	for field, take := range map[string]func(*v1.Pod){
		"pod ns/n (): metadata.uid":       func(p *v1.Pod) { p.UID = "" },
		"pod ns/ (u): metadata.name ":     func(p *v1.Pod) { p.Name = "" },
		"pod /n (u): metadata.namespace ": func(p *v1.Pod) { p.Namespace = "" },
	} {
		pod := whole
		take(&pod)
		require.ErrorContains(t, CheckIdentity(&pod), field)
	}
}
