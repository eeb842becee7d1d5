package podfacts

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// EffectivePolicy is the container's own restart policy if it has one, else the
// pod's; what is empty or unknown counts as Always. Rules are not looked at.
func EffectivePolicy(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = v1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case v1.RestartPolicyNever, v1.RestartPolicyOnFailure:
		return policy
	default:
		return v1.RestartPolicyAlways
	}
}

// MatchingRule returns the first restart rule of the container that matches an
// exit code (KEP-5307), or nil. Rules count only beside a container policy.
func MatchingRule(c *v1.Container, exitCode int32) *v1.ContainerRestartRule {
	if c.RestartPolicy == nil {
		return nil
	}
	for i := range c.RestartPolicyRules {
		on := c.RestartPolicyRules[i].ExitCodes
		if on == nil {
			continue
		}
		in := slices.Contains(on.Values, exitCode)
		switch {
		case on.Operator == v1.ContainerRestartRuleOnExitCodesOpIn && in,
			on.Operator == v1.ContainerRestartRuleOnExitCodesOpNotIn && !in:
			return &c.RestartPolicyRules[i]
		}
	}
	return nil
}

// MayRestart tells whether a container that exited with a code may run again,
// as far as policy and rules go. A pod's deletion is the caller's question.
func MayRestart(pod *v1.Pod, c *v1.Container, exitCode int32) bool {
	if rule := MatchingRule(c, exitCode); rule != nil {
		return true
	}
	switch EffectivePolicy(pod, c) {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// RestartsAll tells whether a container that exited with a code asks for a
// restart of all containers of its pod (KEP-5532).
func RestartsAll(c *v1.Container, exitCode int32) bool {
	rule := MatchingRule(c, exitCode)
	return rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
}

// MayRestartAll tells whether any container of a pod has a restart rule by which
// its exit restarts all containers (KEP-5532).
func MayRestartAll(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, rule := range list[i].RestartPolicyRules {
				if rule.Action == v1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}
