package eviction

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value is an amount in bytes, inodes or processes, or a share of the capacity if Percent is set.
type Value struct {
	Amount  int64
	Percent float64 // 0 to 100
}

// Of returns the amount of v for a capacity.
func (v Value) Of(capacity uint64) uint64 {
	if v.Percent > 0 {
		return uint64(float64(capacity) * float64(float32(v.Percent)/100)) // float32 as upstream, for equal results
	}
	return uint64(max(v.Amount, 0))
}

// Threshold is the amount of a signal that must stay available.
type Threshold struct {
	Signal Signal
	// Value is the limit: the threshold is met below it.
	Value Value
	// Grace is the time that the threshold must be met before it acts. Zero means a hard
	// threshold.
	Grace time.Duration
	// MinReclaim is the amount beyond Value that must be available after the threshold has acted.
	MinReclaim Value
}

// Hard reports whether the threshold acts immediately.
func (t Threshold) Hard() bool { return t.Grace == 0 }

// Settings are thresholds in the form of the kubelet configuration, by signal: amounts such as
// "100Mi", or shares such as "10%". 0% and 100% disable a threshold.
type Settings struct {
	// Hard are the hard thresholds. Default if nil: 100Mi of memory, 10 % of the node's
	// filesystem, 15 % of the image filesystem, and 5 % of the inodes of each.
	Hard map[string]string
	// Soft are soft thresholds. Each needs a grace period in SoftGrace.
	Soft, SoftGrace map[string]string
	MinimumReclaim  map[string]string
	// MergeDefaults adds the default of each signal that is missing from Hard.
	MergeDefaults bool
	// EnforcePods adds a threshold for the memory of all pods together: the hard memory threshold
	// applies to their cgroup, too.
	EnforcePods bool
}

func defaultHard() map[string]string {
	return map[string]string{
		string(MemoryAvailable): "100Mi", string(NodeFSAvailable): "10%", string(NodeFSInodesFree): "5%",
		string(ImageFSAvailable): "15%", string(ImageFSInodesFree): "5%",
	}
}

// Parse returns the thresholds in the order of action. The error names each invalid field and
// signal.
func (s Settings) Parse() ([]Threshold, error) {
	hard := s.Hard
	if hard == nil || s.MergeDefaults {
		hard = defaultHard()
		maps.Copy(hard, s.Hard)
	}
	p := parser{reclaim: s.MinimumReclaim}
	for _, signal := range slices.Sorted(maps.Keys(hard)) {
		p.threshold("evictionHard", signal, hard[signal], 0)
	}
	for _, signal := range slices.Sorted(maps.Keys(s.Soft)) {
		p.threshold("evictionSoft", signal, s.Soft[signal], p.grace(signal, s.SoftGrace))
	}
	for _, signal := range slices.Sorted(maps.Keys(s.SoftGrace)) {
		if _, ok := s.Soft[signal]; !ok && p.checkSignal("evictionSoftGracePeriod", signal) {
			p.grace(signal, s.SoftGrace)
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(s.MinimumReclaim)) {
		if p.checkSignal("evictionMinimumReclaim", signal) {
			p.value("evictionMinimumReclaim", signal, s.MinimumReclaim[signal])
		}
	}
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	if s.EnforcePods {
		p.addAllocatable()
	}
	slices.SortStableFunc(p.out, func(a, b Threshold) int { return cmp.Compare(a.Signal.order(), b.Signal.order()) })
	return p.out, nil
}

type parser struct {
	reclaim map[string]string
	out     []Threshold
	errs    []error
}

func (p *parser) fail(field, signal, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("eviction: %s[%s]: %s", field, signal, fmt.Sprintf(format, args...)))
}

func (p *parser) checkSignal(field, signal string) bool {
	if Signal(signal).order() < 0 {
		p.fail(field, signal, "unknown signal")
		return false
	}
	return true
}

func (p *parser) threshold(field, signal, text string, grace time.Duration) {
	if !p.checkSignal(field, signal) {
		return
	}
	value, ok := p.value(field, signal, text)
	switch {
	case !ok || strings.HasSuffix(text, "%") && (value.Percent == 0 || value.Percent == 100):
	case value == Value{}:
		p.fail(field, signal, "%q must be greater than 0", text)
	case !Signal(signal).ofContainers():
		t := Threshold{Signal: Signal(signal), Value: value, Grace: grace}
		if least, ok := p.reclaim[signal]; ok {
			t.MinReclaim, _ = parseValue(least) // errors are reported by the loop over MinimumReclaim
		}
		p.out = append(p.out, t)
	}
}

func (p *parser) value(field, signal, text string) (Value, bool) {
	value, err := parseValue(text)
	if err != nil {
		p.fail(field, signal, "%v", err)
	}
	return value, err == nil
}

func (p *parser) grace(signal string, all map[string]string) time.Duration {
	text, ok := all[signal]
	d, err := time.ParseDuration(text)
	switch {
	case !ok:
		p.fail("evictionSoft", signal, "evictionSoftGracePeriod has no entry for this signal")
	case err != nil || d <= 0:
		p.fail("evictionSoftGracePeriod", signal, "%q must be a duration greater than 0, such as 1m30s", text)
	}
	return d
}

// addAllocatable copies the hard memory threshold to AllocatableMemoryAvailable.
func (p *parser) addAllocatable() {
	for _, t := range p.out {
		if t.Signal == AllocatableMemoryAvailable && t.Hard() {
			return
		}
	}
	for _, t := range p.out {
		if t.Signal == MemoryAvailable && t.Hard() {
			t.Signal = AllocatableMemoryAvailable
			p.out = append(p.out, t)
		}
	}
}

func parseValue(text string) (Value, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(number, 64)
		if err != nil || !(share >= 0 && share <= 100) {
			return Value{}, fmt.Errorf("%q must be a percentage from 0%% to 100%%", text)
		}
		return Value{Percent: share}, nil
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return Value{}, fmt.Errorf("%q must be a quantity such as 100Mi or a percentage such as 10%%", text)
	case q.Sign() < 0:
		return Value{}, fmt.Errorf("%q must not be negative", text)
	case q.CmpInt64(math.MaxInt64) > 0:
		return Value{}, fmt.Errorf("%q must be at most 2^63-1", text)
	}
	return Value{Amount: q.Value()}, nil
}
