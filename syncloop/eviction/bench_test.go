package eviction

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkDecide decides and chooses a victim on a node of 500 pods with thresholds for all
// signals. Limit: 2 ms.
func BenchmarkDecide(b *testing.B) {
	policy := Policy{Transition: 5 * time.Minute, LocalStorage: true}
	for _, signal := range signals() {
		policy.Thresholds = append(policy.Thresholds, hard(signal, 100))
	}
	usage, pods := randomUsage(rand.New(rand.NewPCG(1, 2)), 500, noon)
	for b.Loop() {
		d := policy.Decide(State{}, usage, pods, noon)
		policy.Candidate(d, usage, pods, noon)
	}
}
