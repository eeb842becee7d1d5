package podfacts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

func TestClosedGates(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{ReadinessGates: []v1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}}}
	require.Equal(t, `condition "a" does not exist, condition "b" does not exist`, podfacts.ClosedGates(pod, nil))
	conditions := []v1.PodCondition{{Type: "a", Status: v1.ConditionTrue}, {Type: "b", Status: v1.ConditionUnknown}}
	require.Equal(t, `condition "b" is Unknown`, podfacts.ClosedGates(pod, conditions))
	conditions[1].Status = v1.ConditionTrue
	require.Empty(t, podfacts.ClosedGates(pod, conditions))
}

func TestReadyIsStale(t *testing.T) {
	const yes, no = v1.ConditionTrue, v1.ConditionFalse
	is := func(c v1.PodConditionType, status v1.ConditionStatus, message string) v1.PodCondition {
		return v1.PodCondition{Type: c, Status: status, Message: message}
	}
	const closed, opened = `condition "gate" is False`, ""
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
		require.Equal(t, c.stale, podfacts.ReadyIsStale(pod), name)
		pod.Spec.ReadinessGates = nil
		require.False(t, podfacts.ReadyIsStale(pod), "%s: without gates it follows by itself", name)
	}
}

func TestIsTerminalPhase(t *testing.T) {
	for phase, terminal := range map[v1.PodPhase]bool{"": false, v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, v1.PodSucceeded: true, v1.PodFailed: true} {
		require.Equal(t, terminal, podfacts.IsTerminalPhase(phase), phase)
	}
}
