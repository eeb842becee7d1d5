package critest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// recorder is the testing.TB of a case that is expected to fail. It records the result of the case
// and does not fail the enclosing test.
type recorder struct {
	testing.TB // for TempDir
	ctx        context.Context

	mu              sync.Mutex
	failed, skipped bool
	log             strings.Builder
	cleanups        []func()
}

func (r *recorder) Helper()                      {}
func (r *recorder) Context() context.Context     { return r.ctx }
func (r *recorder) Error(args ...any)            { r.note(true, fmt.Sprintln(args...)) }
func (r *recorder) Errorf(f string, args ...any) { r.note(true, fmt.Sprintf(f, args...)) }
func (r *recorder) Fail()                        { r.note(true, "") }
func (r *recorder) Log(args ...any)              { r.note(false, fmt.Sprintln(args...)) }
func (r *recorder) Logf(f string, args ...any)   { r.note(false, fmt.Sprintf(f, args...)) }
func (r *recorder) Fatal(args ...any)            { r.Error(args...); r.FailNow() }
func (r *recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); r.FailNow() }
func (r *recorder) Skip(args ...any)             { r.Log(args...); r.SkipNow() }
func (r *recorder) Skipf(f string, args ...any)  { r.Logf(f, args...); r.SkipNow() }

func (r *recorder) note(failed bool, text string) {
	if strings.Contains(text, "%!") {
		r.TB.Error(text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log.WriteString(text)
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) SkipNow() {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// last removes and returns the next cleanup, or nil.
func (r *recorder) last() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cleanups) == 0 {
		return nil
	}
	f := r.cleanups[len(r.cleanups)-1]
	r.cleanups = r.cleanups[:len(r.cleanups)-1]
	return f
}

// The message of a wrong reply has the differing fields only.
func TestWrongReplyIsReportedAsDifference(t *testing.T) {
	want := &runtimeapi.ContainerStatus{Id: "c", ExitCode: 3, Metadata: &runtimeapi.ContainerMetadata{Name: "equal-name", Attempt: 1}}
	got := proto.CloneOf(want)
	got.ExitCode, got.Metadata.Attempt = 4, 0
	r := &recorder{TB: t}
	inOwnGoroutine(func() { (&env{t: r}).same(want, got) })
	require.Contains(t, r.log.String(), "the ContainerStatus differs:")
	require.Contains(t, r.log.String(), "exitCode: 4, must be 3")
	require.Contains(t, r.log.String(), "metadata.attempt: absent, must be 1")
	require.NotContains(t, r.log.String(), "equal-name")
}

// inOwnGoroutine calls f in a goroutine that Goexit may end.
func inOwnGoroutine(f func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		f()
	}()
	<-over
}

// caseNamed finds a case by "Group/name".
func caseNamed(t *testing.T, name string) testCase {
	groupName, caseName, _ := strings.Cut(name, "/")
	for _, g := range groups() {
		for _, c := range g.cases {
			if g.name == groupName && c.name == caseName {
				return c
			}
		}
	}
	require.FailNow(t, "there is no such case", name)
	return testCase{}
}
