package podfacts

import (
	"testing"

	"github.com/stretchr/testify/require"
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
	require.False(t, IsStatic(&v1.Pod{}), "a pod without the annotation is nobody's static pod")
}

func TestIsSidecar(t *testing.T) {
	require.True(t, IsSidecar(&v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyAlways)}))
	require.False(t, IsSidecar(&v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever)}))
	require.False(t, IsSidecar(&v1.Container{}))
}

func policy(p v1.ContainerRestartPolicy) *v1.ContainerRestartPolicy { return &p }

// C18 and spec section 4.5.
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
		{"a rule of nothing is passed over", v1.RestartPolicyNever, v1.Container{RestartPolicy: policy(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{{}, rule}}, 42, true},
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
		{"zero counts as nothing", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("0", "")}}}}}, v1.PodQOSBestEffort},
		{"all limited", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: full}, {Resources: full}}}}, v1.PodQOSGuaranteed},
		{"one unlimited", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: full}, {}}}}, v1.PodQOSBurstable},
		{"an init container counts", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: full}}, InitContainers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"request only", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", "")}}}}}, v1.PodQOSBurstable},
		{"limits without a request", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", ""), Limits: full.Limits}}}}}, v1.PodQOSBurstable},
		{"requests below limits", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", "1Mi"), Limits: full.Limits}}}}}, v1.PodQOSBurstable},
		{"one limit", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", ""), Limits: list("1", "")}}}}}, v1.PodQOSBurstable},
		{"pod level wins", v1.Pod{Spec: v1.PodSpec{Resources: &full, Containers: []v1.Container{{}}}}, v1.PodQOSGuaranteed},
		{"limits of the pod alone win", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Limits: full.Limits}, Containers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"requests of the pod alone win", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: list("1", "1Gi")}, Containers: []v1.Container{{Resources: full}}}}, v1.PodQOSBurstable},
		{"the first unlimited", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}, {Resources: full}}}}, v1.PodQOSBurstable},
		{"one request of the pod", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: list("1", "")}, Containers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"one limit of the pod", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Limits: list("1", "")}, Containers: []v1.Container{{}}}}, v1.PodQOSBurstable},
		{"nothing of the pod", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{}, Containers: []v1.Container{{Resources: full}}}}, v1.PodQOSGuaranteed},
		{"set in status", v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSBurstable}}, v1.PodQOSBurstable},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, QOSClass(&tc.pod)) })
	}
}

// C19
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
