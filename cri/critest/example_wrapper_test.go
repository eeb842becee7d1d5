package critest_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/cri/fake"
)

// wrapped is a runtime that extends another runtime.
type wrapped struct{ cri.RuntimeService }

func testWrapper(t *testing.T) {
	critest.Run(t, critest.Config{Around: synctest.Test, Start: func(t *testing.T) critest.Subject {
		// AnyImage stays false for the cases about absent images. Without Streams the cases about
		// sessions are skipped.
		rt, err := fake.New(fake.Config{Programs: critest.Programs, Exec: critest.Programs})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		return critest.Subject{Runtime: wrapped{rt}, Images: rt, Image: "busybox", Hardened: true}
	}})
}

// Example_wrapper tests a wrapper around the fake: in memory and in virtual time, which takes a
// second or two. It has no output, because only go test has a *testing.T; TestFake runs the function.
func Example_wrapper() {
	_ = testWrapper
}
