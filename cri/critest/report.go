package critest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// report collects the last log line of Run.
type report struct {
	mu                      sync.Mutex
	runtime                 string
	passed, skipped, failed int
	absent                  map[string]bool
}

// count records the result of a case. Callers defer it, so that the case is over.
func (r *report) count(t testing.TB) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case t.Failed():
		r.failed++
	case t.Skipped():
		r.skipped++
	default:
		r.passed++
	}
}

func (r *report) lacks(feature string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.absent == nil {
		r.absent = map[string]bool{}
	}
	r.absent[feature] = true
}

func (r *report) names(v *runtimeapi.VersionResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runtime = v.GetRuntimeName() + " " + v.GetRuntimeVersion()
}

// String returns the report as one line.
func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.runtime
	if name == "" {
		name = "the runtime"
	}
	absent := "nothing"
	if len(r.absent) > 0 {
		absent = strings.Join(slices.Sorted(maps.Keys(r.absent)), ", ")
	}
	return fmt.Sprintf("critest: %s: %d cases: %d passed, %d failed, %d skipped; it lacks %s",
		name, r.passed+r.failed+r.skipped, r.passed, r.failed, r.skipped, absent)
}
