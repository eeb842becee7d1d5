package script

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Firing is how often a rule came into play.
type Firing struct {
	// Rule is the rule.
	Rule Rule
	// Matched counts what the rule is about: what its Subject and Of fit.
	Matched int
	// Fired counts how often it had an effect. An event that is delivered to
	// two streams counts twice.
	Fired int
}

// matcher counts for the rules of a script, and decides what happens.
type matcher struct {
	seed  uint64
	rules []Rule
	keys  []uint64 // of each rule's random numbers

	mu      sync.Mutex
	matched []int
	fired   []int
}

// plan is what is to happen to one call, event or run.
type plan struct {
	// latency is the sum of the rules that are latencies.
	latency time.Duration
	// steps are those of the rule that decides, with their random durations
	// drawn: Min is Max. None when no rule decides.
	steps []Step
	// rules are the rules that take effect.
	rules []int
}

func newMatcher(s Script) *matcher {
	t := &matcher{seed: s.Seed, rules: cloneRules(s.Rules), matched: make([]int, len(s.Rules)), fired: make([]int, len(s.Rules))}
	for _, r := range t.rules {
		t.keys = append(t.keys, key(r))
	}
	return t
}

func cloneRules(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Steps = slices.Clone(rules[i].Steps)
	}
	return rules
}

// key makes a rule's random numbers depend on what the rule says and not on
// where it stands, so that rules around it can be taken away.
func key(r Rule) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.String()))
	return h.Sum64()
}

// random gives the source of random numbers for the n-th match of a rule.
func (t *matcher) random(rule, n int) *rand.Rand {
	return rand.New(rand.NewPCG(mix(t.seed^t.keys[rule]), mix(uint64(n))))
}

// mix spreads numbers that are close to each other (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// decide counts what happens, a call's name for example, and tells what the
// script wants. Of the rules that fire all latencies count, and the first of the
// others decides.
func (t *matcher) decide(happens string, o *Object) plan {
	var p plan
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.rules {
		r := &t.rules[i]
		if !covers(r.Subject, happens) || !r.Of.selects(o) {
			continue
		}
		t.matched[i]++
		random := t.random(i, t.matched[i])
		if !r.Which.fires(t.matched[i], random.Float64()) {
			continue
		}
		latency := r.isLatency()
		if !latency && p.steps != nil {
			continue
		}
		t.fired[i]++
		p.rules = append(p.rules, i)
		steps := draw(r.Steps, random)
		if !latency {
			p.steps = steps
			continue
		}
		for _, step := range steps {
			p.latency += step.Min
		}
	}
	return p
}

// isLatency tells whether a rule only lets time pass. A run is never that: how
// long it takes is what it does.
func (r *Rule) isLatency() bool {
	return r.Subject != Run && !slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Kind != KindTake })
}

// draw settles random durations.
func draw(steps []Step, random *rand.Rand) []Step {
	steps = slices.Clone(steps)
	for i, s := range steps {
		if width := s.Max - s.Min; width > 0 {
			d := s.Min + time.Duration(random.Uint64N(uint64(width)+1))
			steps[i].Min, steps[i].Max = d, d
		}
	}
	return steps
}

func (t *matcher) firings() []Firing {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Firing, len(t.rules))
	for i, r := range t.rules {
		all[i] = Firing{Rule: r, Matched: t.matched[i], Fired: t.fired[i]}
	}
	return all
}
