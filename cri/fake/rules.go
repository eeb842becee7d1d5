package fake

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Rule delays and fails calls of a runtime. A call matches if it has the rule's Call, Pod and
// Container. Each rule counts its own matching calls, in the order of their begin, and acts on
// those selected by Nth, Times and Chance.
type Rule struct {
	// Call is the name of a CRI call, such as "StopContainer". Default: all calls.
	Call string
	// Pod is the name of a pod, or its namespace and name, "prod/web". Calls without
	// a pod, such as lists, do not match. Default: calls with any pod, or with none.
	Pod string
	// Container is the name of a container. Default: any, or none.
	Container string

	// Nth is the count of the first matching call that the rule acts on, from 1.
	// Default: 1.
	Nth int
	// Times is the number of consecutive matching calls from Nth on. Default: one
	// call if Nth is set, otherwise all.
	Times int
	// Chance is the probability of acting on such a call, up to 1. It depends only on the seed, the
	// rule and the count. Default: always.
	Chance float64

	// Latency delays the call. If its context ends meanwhile, the call ends with it. Default: none.
	Latency time.Duration
	// Err is the result of the call, after Latency. The call has no effect.
	// Default: the call proceeds.
	Err error
}

// String returns the fields that are set.
func (r Rule) String() string {
	var fields []string
	add := func(name string, value any, set bool) {
		if set {
			fields = append(fields, fmt.Sprintf("%s: %v", name, value))
		}
	}
	add("Call", r.Call, r.Call != "")
	add("Pod", r.Pod, r.Pod != "")
	add("Container", r.Container, r.Container != "")
	add("Nth", r.Nth, r.Nth != 0)
	add("Times", r.Times, r.Times != 0)
	add("Chance", r.Chance, r.Chance != 0)
	add("Latency", r.Latency, r.Latency != 0)
	add("Err", r.Err, r.Err != nil)
	return "{" + strings.Join(fields, ", ") + "}"
}

func (r Rule) validate() error {
	switch {
	case r.Call != "" && callInput(r.Call) == nil:
		return fmt.Errorf("field Call: unknown call %q", r.Call)
	case r.Call != "" && r.Pod != "" && !namesPod(r.Call):
		return fmt.Errorf("field Pod: calls of %s have no pod", r.Call)
	case r.Call != "" && r.Container != "" && !namesContainer(r.Call):
		return fmt.Errorf("field Container: calls of %s have no container", r.Call)
	case strings.Count(r.Pod, "/") > 1 || strings.HasPrefix(r.Pod, "/") || strings.HasSuffix(r.Pod, "/"):
		return fmt.Errorf("field Pod: %q is neither name nor namespace/name", r.Pod)
	case r.Nth < 0:
		return fmt.Errorf("field Nth %d is negative", r.Nth)
	case r.Times < 0:
		return fmt.Errorf("field Times %d is negative", r.Times)
	case !(r.Chance >= 0 && r.Chance <= 1):
		return fmt.Errorf("field Chance %v is not between 0 and 1", r.Chance)
	case r.Latency < 0:
		return fmt.Errorf("field Latency %v is negative", r.Latency)
	}
	return nil
}

func (r Rule) matches(call string, s subject) bool {
	return (r.Call == "" || r.Call == call) &&
		(r.Container == "" || r.Container == s.container) &&
		(r.Pod == "" || r.Pod == s.pod || r.Pod == s.namespace+"/"+s.pod)
}

// selects reports whether the rule acts on its n-th matching call.
func (r Rule) selects(n int, seed uint64) bool {
	first, times := max(r.Nth, 1), r.Times
	if times == 0 && r.Nth > 0 {
		times = 1
	}
	if n < first || times > 0 && n-first >= times {
		return false
	}
	if r.Chance == 0 {
		return true
	}
	hash := fnv.New64a()
	fmt.Fprint(hash, r, n)
	return rand.New(rand.NewPCG(seed, hash.Sum64())).Float64() < r.Chance
}

// Rules delay and fail calls of a Runtime, as its Config.Intercept:
//
//	rules, err := fake.NewRules(1, fake.Rule{Call: "StopContainer", Pod: "a", Nth: 2, Latency: 30 * time.Second, Err: unavailable})
//	rt, err := fake.New(fake.Config{Intercept: rules.Intercept})
//
// Of several rules that act on one call, the latencies add up in the order of the
// rules, until the first with an Err ends the call. Rules serve one Runtime. They are
// safe for concurrent use.
type Rules struct {
	seed  uint64
	rules []Rule

	mu     sync.Mutex
	counts []int // matching calls, by rule
}

// NewRules returns rules whose chances follow from seed. It refuses rules that cannot act; the
// error names the field.
func NewRules(seed uint64, rules ...Rule) (*Rules, error) {
	for i, r := range rules {
		if err := r.validate(); err != nil {
			return nil, fmt.Errorf("fake: rule %d: %w", i, err)
		}
	}
	return &Rules{seed: seed, rules: rules, counts: make([]int, len(rules))}, nil
}

// String returns the seed and the rules, one per line. Rules with the same text act on the same
// calls if these come in the same order.
func (r *Rules) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d\n", r.seed)
	for _, rule := range r.rules {
		fmt.Fprintln(&text, rule)
	}
	return text.String()
}

// Intercept applies the rules to a call. It is a Config.Intercept.
func (r *Rules) Intercept(ctx context.Context, call string, _ any) error {
	for _, rule := range r.acting(call, subjectOf(ctx)) {
		if rule.Latency > 0 && !run.Sleep(ctx, rule.Latency) {
			return ctx.Err()
		}
		if rule.Err != nil {
			return rule.Err
		}
	}
	return nil
}

// acting counts a call and returns the rules that act on it.
func (r *Rules) acting(call string, s subject) []Rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	var acting []Rule
	for i, rule := range r.rules {
		if !rule.matches(call, s) {
			continue
		}
		r.counts[i]++
		if rule.selects(r.counts[i], r.seed) {
			acting = append(acting, rule)
		}
	}
	return acting
}
