package podfacts

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIdentity(t *testing.T) {
	static := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Annotations: map[string]string{ConfigSource: "file"}}}
	require.Equal(t, "a_b", FullName(static))
	require.True(t, IsStatic(static))
	require.False(t, IsMirror(static))
	api := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ConfigSource: SourceAPI, ConfigMirror: "x"}}}
	require.False(t, IsStatic(api))
	require.True(t, IsMirror(api))
	require.False(t, IsStatic(&v1.Pod{}), "a pod without the annotation is not static")
}

func TestIsSidecar(t *testing.T) {
	require.True(t, IsSidecar(&v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyAlways)}))
	require.False(t, IsSidecar(&v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever)}))
	require.False(t, IsSidecar(&v1.Container{}))
}

func policy(p v1.ContainerRestartPolicy) *v1.ContainerRestartPolicy { return &p }

// MayRestart follows C18 and spec section 4.5.
func TestMayRestart(t *testing.T) {
	rule := v1.ContainerRestartRule{
		Action:    v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}
	not := rule
	not.ExitCodes = &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{0, 42}}
	for _, tc := range []struct {
		name string
		pod  v1.RestartPolicy
		c    v1.Container
		code int32
		want bool
	}{
		{"always", v1.RestartPolicyAlways, v1.Container{}, 0, true},
		{"empty is always", "", v1.Container{}, 0, true},
		{"unknown is always", "Sometimes", v1.Container{}, 0, true},
		{"never", v1.RestartPolicyNever, v1.Container{}, 1, false},
		{"on failure, failed", v1.RestartPolicyOnFailure, v1.Container{}, 1, true},
		{"on failure, clean", v1.RestartPolicyOnFailure, v1.Container{}, 0, false},
		{"container wins", v1.RestartPolicyAlways, v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever)}, 1, false},
		{"rule matches", v1.RestartPolicyNever, v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{rule}}, 42, true},
		{"rule misses", v1.RestartPolicyNever, v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{rule}}, 1, false},
		{"not-in matches", v1.RestartPolicyNever, v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{not}}, 7, true},
		{"not-in misses", v1.RestartPolicyNever, v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{not}}, 42, false},
		{"an empty rule is ignored", v1.RestartPolicyNever, v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{{}, rule}}, 42, true},
		{"rule without policy is ignored", v1.RestartPolicyNever, v1.Container{RestartPolicyRules: []v1.ContainerRestartRule{rule}}, 42, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: tc.pod}}
			require.Equal(t, tc.want, MayRestart(pod, &tc.c, tc.code))
		})
	}
}

func list(cpu, memory string) v1.ResourceList {
	out := v1.ResourceList{}
	if cpu != "" {
		out[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func TestQOSClass(t *testing.T) {
	full := v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("1", "1Gi")}
	for _, tc := range []struct {
		name string
		pod  v1.Pod
		want v1.PodQOSClass
	}{
		{"nothing", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}}}, v1.PodQOSBestEffort},
		{"zero counts as unset", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("0", "")}}}}}, v1.PodQOSBestEffort},
		{"all limited", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: full}, {Resources: full}}}}, v1.PodQOSGuaranteed},
		{"one unlimited", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: full}, {}}}}, v1.PodQOSBurstable},
		{"an init container counts", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: full}}, InitContainers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"request only", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", "")}}}}}, v1.PodQOSBurstable},
		{"limits without a request", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", ""), Limits: full.Limits}}}}}, v1.PodQOSBurstable},
		{"requests below limits", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", "1Mi"), Limits: full.Limits}}}}}, v1.PodQOSBurstable},
		{"one limit", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", ""), Limits: list("1", "")}}}}}, v1.PodQOSBurstable},
		{"pod level wins", v1.Pod{Spec: v1.PodSpec{Resources: &full, Containers: []v1.Container{{}}}}, v1.PodQOSGuaranteed},
		{"pod limits without requests win", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Limits: full.Limits}, Containers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"pod requests without limits win", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: list("1", "1Gi")}, Containers: []v1.Container{{Resources: full}}}}, v1.PodQOSBurstable},
		{"the first unlimited", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}, {Resources: full}}}}, v1.PodQOSBurstable},
		{"one request of the pod", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: list("1", "")}, Containers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"one limit of the pod", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Limits: list("1", "")}, Containers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"empty pod resources", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{}, Containers: []v1.Container{{Resources: full}}}}, v1.PodQOSGuaranteed},
		{"set in status", v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}}, v1.PodQOSBurstable},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, QOSClass(&tc.pod)) })
	}
}

// C19: only a matching rule restarts all containers.
func TestRestartAll(t *testing.T) {
	on := func(action v1.ContainerRestartRuleAction) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}
	}
	one, all := on(v1.ContainerRestartRuleActionRestart), on(v1.ContainerRestartRuleActionRestartAllContainers)
	c := v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{all}}
	require.True(t, RestartsAll(&c, 42))
	require.False(t, RestartsAll(&c, 1))
	require.False(t, RestartsAll(&v1.Container{RestartPolicyRules: c.RestartPolicyRules}, 42), "rules count beside a policy only")
	both := v1.Container{RestartPolicy: c.RestartPolicy, RestartPolicyRules: []v1.ContainerRestartRule{one, all}}
	require.False(t, RestartsAll(&both, 42), "the first rule that matches")
	require.True(t, MayRestartAll(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}, both}}}))
	require.True(t, MayRestartAll(&v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{c}}}))
	require.False(t, MayRestartAll(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{RestartPolicyRules: []v1.ContainerRestartRule{one}}}}}))
}

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

// C17: Hash returns the values of the kubelet's hash, and depends only on name and image.
func TestHashVectors(t *testing.T) {
	for want, c := range map[string]v1.Container{
		"8e45cbd0": {Image: "foo/image:v1", Name: "test_container"},
		"5264866e": {Image: "busybox", Name: "a"},
		"4377ccae": {Image: "registry.k8s.io/pause:3.10", Name: "c1"},
	} {
		require.Equal(t, want, strconv.FormatUint(Hash(&c), 16))
		c.Env = []v1.EnvVar{{Name: "X"}}
		c.ReadinessProbe = &v1.Probe{}
		c.Resources.Limits = list("1", "1Gi")
		require.Equal(t, want, strconv.FormatUint(Hash(&c), 16))
	}
}

func TestResizeMessage(t *testing.T) {
	with := func(cpu string) v1.ResourceRequirements { return v1.ResourceRequirements{Requests: list(cpu, "")} }
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "i", Resources: with("1")}},
		Containers:     []v1.Container{{Name: "a", Resources: with("2")}, {Name: "b"}},
	}}
	const containers = `"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}],` +
		`"containers":[{"name":"a","resources":{"requests":{"cpu":"2"}}},{"name":"b","resources":{}}],"generation":7`
	require.Equal(t, "Pod resize started: {"+containers+"}", ResizeMessage("Pod resize started", pod, ""))
	pod.Spec.Resources = new(with("3"))
	require.Equal(t, `Pod resize error: {"resources":{"requests":{"cpu":"3"}},`+containers+`,"error":"no"}`, ResizeMessage("Pod resize error", pod, "no"))
}

// The container's own profile comes first, then the deprecated annotation, then the pod's
// profile.
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClosedGates(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{ReadinessGates: []v1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}}}
	require.Equal(t, `corresponding condition of pod readiness gate "a" does not exist., corresponding condition of pod readiness gate "b" does not exist.`, ClosedGates(pod, nil))
	conditions := []v1.PodCondition{{Type: "a", Status: v1.ConditionTrue}, {Type: "b", Status: v1.ConditionUnknown}}
	require.Equal(t, `the status of pod readiness gate "b" is not "True", but Unknown`, ClosedGates(pod, conditions))
	conditions[1].Status = v1.ConditionTrue
	require.Empty(t, ClosedGates(pod, conditions))
}

func TestReadyIsStale(t *testing.T) {
	const yes, no = v1.ConditionTrue, v1.ConditionFalse
	is := func(c v1.PodConditionType, status v1.ConditionStatus, message string) v1.PodCondition {
		return v1.PodCondition{Type: c, Status: status, Message: message}
	}
	const closed, opened = `the status of pod readiness gate "gate" is not "True", but False`, ""
	for name, c := range map[string]struct {
		conditions []v1.PodCondition
		stale      bool
	}{
		"never ready":              {nil, true},
		"ready without containers": {[]v1.PodCondition{is(v1.PodReady, yes, "")}, true},
		"not ready, no containers": {[]v1.PodCondition{is(v1.PodReady, no, "")}, false},
		"ready, containers not":    {[]v1.PodCondition{is(v1.PodReady, yes, "m"), is(v1.ContainersReady, no, "m")}, true},
		"neither ready":            {[]v1.PodCondition{is(v1.PodReady, no, "m"), is(v1.ContainersReady, no, "m")}, false},
		"for another reason":       {[]v1.PodCondition{is(v1.PodReady, no, "n"), is(v1.ContainersReady, no, "m")}, true},
		"gate closed since":        {[]v1.PodCondition{is(v1.PodReady, yes, opened), is(v1.ContainersReady, yes, ""), is("gate", no, "")}, true},
		"gate closed":              {[]v1.PodCondition{is(v1.PodReady, no, closed), is(v1.ContainersReady, yes, ""), is("gate", no, "")}, false},
		"closed, old reason":       {[]v1.PodCondition{is(v1.PodReady, no, "old"), is(v1.ContainersReady, yes, ""), is("gate", no, "")}, true},
		"gate opened since":        {[]v1.PodCondition{is(v1.PodReady, no, opened), is(v1.ContainersReady, yes, ""), is("gate", yes, "")}, true},
		"all is well":              {[]v1.PodCondition{is(v1.PodReady, yes, ""), is(v1.ContainersReady, yes, ""), is("gate", yes, "")}, false},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{ReadinessGates: []v1.PodReadinessGate{{ConditionType: "gate"}}}, Status: v1.PodStatus{Conditions: c.conditions}}
		require.Equal(t, c.stale, ReadyIsStale(pod), name)
		pod.Spec.ReadinessGates = nil
		require.False(t, ReadyIsStale(pod), "%s: without gates it follows by itself", name)
	}
}

func TestIsTerminalPhase(t *testing.T) {
	for phase, terminal := range map[v1.PodPhase]bool{"": false, v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, v1.PodSucceeded: true, v1.PodFailed: true} {
		require.Equal(t, terminal, IsTerminalPhase(phase), phase)
	}
}

func TestContainer(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "c"}}, InitContainers: []v1.Container{{Name: "i"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}},
	}}
	for name, path := range map[string]string{"c": "spec.containers{c}", "i": "spec.initContainers{i}", "e": "spec.ephemeralContainers{e}"} {
		require.Equal(t, path, FieldPath(pod, name))
		require.Equal(t, strings.TrimSuffix(path, "{"+name+"}")+"[0]", SpecPath(pod, name))
		require.Equal(t, name, Container(pod, name).Name)
	}
	require.Empty(t, FieldPath(pod, "volume"))
	require.Equal(t, "container", SpecPath(pod, "volume"))
	require.Nil(t, Container(pod, "volume"))
	require.Nil(t, Container(nil, "c"))
	require.Equal(t, "c", Regular(pod, "c").Name)
	require.Nil(t, Regular(pod, "i"))
}
