package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Who asks to be confined is refused where nobody would do it, and so is one that does not
// say by which profile; one that runs is not.
func TestAppArmor(t *testing.T) {
	profile := func(kind v1.AppArmorProfileType, name ...string) *v1.AppArmorProfile {
		p := &v1.AppArmorProfile{Type: kind}
		if len(name) > 0 {
			p.LocalhostProfile = &name[0]
		}
		return p
	}
	ofPod := func(p *v1.AppArmorProfile) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: p} }
	}
	ofContainer := func(p *v1.AppArmorProfile) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: p}
		}
	}
	ofInit := func(p *v1.AppArmorProfile) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{AppArmorProfile: p}}}
		}
	}
	ofEphemeral := func(p *v1.AppArmorProfile) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", SecurityContext: &v1.SecurityContext{AppArmorProfile: p}}}}
		}
	}
	annotated := func(value string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": value}
		}
	}
	running := func(pod *v1.Pod) { pod.Status.Phase = v1.PodRunning }
	pending := func(pod *v1.Pod) { pod.Status.Phase = v1.PodPending }
	const none = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	const unnamed = "Cannot enforce AppArmor: invalid empty AppArmor profile name: appArmorProfile.localhostProfile"
	anyDefault, local := profile(v1.AppArmorProfileTypeRuntimeDefault), profile(v1.AppArmorProfileTypeLocalhost, "p")
	for name, tc := range map[string]struct {
		change        []func(*v1.Pod)
		without, with string // the messages
	}{
		"nothing":                 {},
		"another context":         {change: []func(*v1.Pod){ofPod(nil), ofContainer(nil)}},
		"unconfined":              {change: []func(*v1.Pod){ofPod(profile(v1.AppArmorProfileTypeUnconfined)), annotated("unconfined")}},
		"pod":                     {change: []func(*v1.Pod){ofPod(anyDefault), pending}, without: none},
		"container":               {change: []func(*v1.Pod){ofContainer(local)}, without: none},
		"init container":          {change: []func(*v1.Pod){ofInit(local)}, without: none},
		"ephemeral container":     {change: []func(*v1.Pod){ofEphemeral(anyDefault)}, without: none},
		"annotation":              {change: []func(*v1.Pod){annotated("runtime/default")}, without: none},
		"runs":                    {change: []func(*v1.Pod){ofPod(anyDefault), running}},
		"unconfined all the same": {change: []func(*v1.Pod){ofPod(anyDefault), ofContainer(profile(v1.AppArmorProfileTypeUnconfined))}, without: none},
		"no name":                 {change: []func(*v1.Pod){ofContainer(profile(v1.AppArmorProfileTypeLocalhost))}, without: none, with: unnamed},
		"blank name":              {change: []func(*v1.Pod){annotated("localhost/ ")}, without: none, with: unnamed},
		"odd annotation": {change: []func(*v1.Pod){annotated("odd")},
			without: `Cannot enforce AppArmor: metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: invalid profile "odd"`,
			with:    `Cannot enforce AppArmor: metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: invalid profile "odd"`},
	} {
		for enabled, message := range map[bool]string{false: tc.without, true: tc.with} {
			err := AppArmor(enabled).Admit(newPod("a", nil, tc.change...), nil)
			if message == "" {
				require.NoError(t, err, "%s, %v", name, enabled)
				continue
			}
			require.Equal(t, "AppArmor", reasonOf(t, err), name)
			require.ErrorContains(t, err, message, "%s, %v", name, enabled)
		}
	}
}
