package podfacts

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The container's own profile comes first, then the annotation of old, then the pod's.
func TestAppArmorProfile(t *testing.T) {
	profile := func(kind v1.AppArmorProfileType) *v1.AppArmorProfile { return &v1.AppArmorProfile{Type: kind} }
	own, pods := profile(v1.AppArmorProfileTypeUnconfined), profile(v1.AppArmorProfileTypeRuntimeDefault)
	for name, test := range map[string]struct {
		container  *v1.SecurityContext
		annotation string
		pod        *v1.PodSecurityContext
		want       *v1.AppArmorProfile
		err        string
	}{
		"none":                   {},
		"empty contexts":         {container: &v1.SecurityContext{}, pod: &v1.PodSecurityContext{}},
		"the container's":        {container: &v1.SecurityContext{AppArmorProfile: own}, annotation: "runtime/default", pod: &v1.PodSecurityContext{AppArmorProfile: pods}, want: own},
		"the pod's":              {container: &v1.SecurityContext{}, pod: &v1.PodSecurityContext{AppArmorProfile: pods}, want: pods},
		"annotation, default":    {annotation: "runtime/default", pod: &v1.PodSecurityContext{AppArmorProfile: own}, want: profile(v1.AppArmorProfileTypeRuntimeDefault)},
		"annotation, unconfined": {annotation: "unconfined", pod: &v1.PodSecurityContext{AppArmorProfile: pods}, want: profile(v1.AppArmorProfileTypeUnconfined)},
		"annotation, local":      {annotation: "localhost/mine", want: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine")}},
		"annotation, nonsense":   {annotation: "mine", err: `metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: invalid profile "mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: test.pod}}
			if test.annotation != "" {
				pod.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{"container.apparmor.security.beta.kubernetes.io/c": test.annotation}}
			}
			got, err := AppArmorProfile(pod, &v1.Container{Name: "c", SecurityContext: test.container})
			require.Equal(t, test.want, got)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.err)
			}
		})
	}
}
