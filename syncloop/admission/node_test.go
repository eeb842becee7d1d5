package admission

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
)

func reasonOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	why, ok := err.(*syncloop.Rejection)
	require.True(t, ok, "%v", err)
	return why.Reason
}

// N12: NoExecute applies to API pods, not to static pods; NoSchedule applies to none.
func TestTolerating(t *testing.T) {
	n := &v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "s", Effect: v1.TaintEffectNoSchedule}, {Key: "e", Value: "v", Effect: v1.TaintEffectNoExecute}}}}
	admit := Tolerating(func() *v1.Node { return n })
	tolerate := func(key string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists}} }
	}
	require.Equal(t, "TaintToleration", reasonOf(t, admit.Admit(newPod("a", nil), nil)))
	require.ErrorContains(t, admit.Admit(newPod("a", nil), nil), "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate")
	require.NoError(t, admit.Admit(newPod("a", nil, static), nil))
	require.NoError(t, admit.Admit(newPod("a", nil, tolerate("e")), nil))
	require.Error(t, admit.Admit(newPod("a", nil, tolerate("s")), nil))
	n.Spec.Taints = []v1.Taint{{Key: "age", Value: "10", Effect: v1.TaintEffectNoExecute}}
	for value, reason := range map[string]string{"9": "", "10": "TaintToleration"} {
		compares := func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "age", Operator: v1.TolerationOpGt, Value: value}}
		}
		require.Equal(t, reason, reasonOf(t, admit.Admit(newPod("a", nil, compares), nil)), "more than %s", value)
	}
	n = &v1.Node{}
	require.NoError(t, admit.Admit(newPod("a", nil), nil))
	n = nil
	require.ErrorContains(t, admit.Admit(newPod("a", nil), nil), "not available yet")
}

// N15: spec.os, and labels of another system.
func TestSystem(t *testing.T) {
	system := func(name v1.OSName) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: name} }
	}
	labelled := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Labels = map[string]string{v1.LabelOSStable: name} }
	}
	admit := System("linux")
	require.Equal(t, "PodOSNotSupported", reasonOf(t, admit.Admit(newPod("a", nil, system("windows")), nil)))
	require.Equal(t, "PodOSSelectorNodeLabelDoesNotMatch", reasonOf(t, admit.Admit(newPod("a", nil, labelled("windows")), nil)))
	require.NoError(t, admit.Admit(newPod("a", nil, labelled("linux")), nil))
	require.NoError(t, admit.Admit(newPod("a", nil, system("")), nil))
	require.NoError(t, admit.Admit(newPod("a", nil, system("linux")), nil))
	require.NoError(t, admit.Admit(newPod("a", nil), nil))
}

func TestOtherNode(t *testing.T) {
	n := &v1.Node{}
	n.Name, n.Labels = "here", map[string]string{"zone": "a"}
	zone := func(op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: op, Values: values}}}
	}
	affine := func(terms ...v1.NodeSelectorTerm) *v1.Affinity {
		return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	for _, c := range []struct {
		selector string
		affinity *v1.Affinity
		want     string // empty: this node
	}{
		{affinity: &v1.Affinity{}}, {affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{}}}, {affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}},
		{selector: "a"},
		{selector: "b", want: `spec.nodeSelector[zone]: the node does not have this label with the value "b"`},
		{affinity: affine(zone(v1.NodeSelectorOpIn, "b"), zone(v1.NodeSelectorOpExists))},
		{affinity: affine(zone(v1.NodeSelectorOpNotIn, "a")), want: "does not match this node"},
		{affinity: affine(zone("Odd", "a")), want: "nodeAffinity"},
	} {
		pod := newPod("p", nil, func(p *v1.Pod) { p.Spec.Affinity = c.affinity })
		if c.selector != "" {
			pod.Spec.NodeSelector = map[string]string{"zone": c.selector}
		}
		err := errors.Join(OtherNode(pod, n)...)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
}

// A pod with a profile is rejected without AppArmor, and so is a Localhost profile without a name.
// Running pods are admitted.
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
		"nothing":                          {},
		"security context without profile": {change: []func(*v1.Pod){ofPod(nil), ofContainer(nil)}},
		"unconfined":                       {change: []func(*v1.Pod){ofPod(profile(v1.AppArmorProfileTypeUnconfined)), annotated("unconfined")}},
		"pod":                              {change: []func(*v1.Pod){ofPod(anyDefault), pending}, without: none},
		"container":                        {change: []func(*v1.Pod){ofContainer(local)}, without: none},
		"init container":                   {change: []func(*v1.Pod){ofInit(local)}, without: none},
		"ephemeral container":              {change: []func(*v1.Pod){ofEphemeral(anyDefault)}, without: none},
		"annotation":                       {change: []func(*v1.Pod){annotated("runtime/default")}, without: none},
		"runs":                             {change: []func(*v1.Pod){ofPod(anyDefault), running}},
		"container overrides pod":          {change: []func(*v1.Pod){ofPod(anyDefault), ofContainer(profile(v1.AppArmorProfileTypeUnconfined))}, without: none},
		"no name":                          {change: []func(*v1.Pod){ofContainer(profile(v1.AppArmorProfileTypeLocalhost))}, without: none, with: unnamed},
		"blank name":                       {change: []func(*v1.Pod){annotated("localhost/ ")}, without: none, with: unnamed},
		"invalid annotation": {change: []func(*v1.Pod){annotated("odd")},
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
