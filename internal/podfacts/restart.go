package podfacts

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// EffectivePolicy returns the container's restart policy, or else the pod's. An empty or unknown
// policy is Always. It ignores restart rules.
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

// MatchingRule returns the first restart rule of the container that matches an exit code
// (KEP-5307), or nil. Rules count only with a container policy.
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

// MayRestart reports whether policy and rules allow that a container with this exit code runs
// again. It does not consider the pod's deletion.
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

// RestartsAll reports whether a container with this exit code requires a restart of all
// containers of its pod (KEP-5532).
func RestartsAll(c *v1.Container, exitCode int32) bool {
	rule := MatchingRule(c, exitCode)
	return rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers
}

// MayRestartAll reports whether any container of a pod has a restart rule that restarts all
// containers (KEP-5532).
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
