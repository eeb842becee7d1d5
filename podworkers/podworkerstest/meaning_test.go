package podworkerstest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each listed rule is checked, and each checked rule is listed.
func TestRulesAreChecked(t *testing.T) {
	r := newRules()
	checked := map[string]bool{
		"INV-20": true, // Recorder.leave
	}
	for _, list := range [][]rule{r.state, r.cancel, r.start, r.end, r.settled} {
		for _, one := range list {
			checked[one.id] = true
		}
	}
	for _, one := range r.states {
		checked[one.id] = true
	}
	checked["INV-18"] = true // Checker.States
	for _, view := range []string{"blind", "two-instances", "slow-stop", "early-phase", "restart-policy", "exit-code", "stale-pod", "resource-kept", "resource-leaked"} {
		checked[view] = true // TestPlantedMistakes
	}
	for _, id := range Rules() {
		require.True(t, checked[id], "%s is claimed", id)
	}
	for id := range checked {
		require.True(t, slices.Contains(Rules(), id), "%s is checked", id)
	}
}
