package critest_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/cri/fake"
)

// wrapped is a runtime that adds something of its own to another.
type wrapped struct{ cri.RuntimeService }

func testWrapper(t *testing.T) {
	critest.Run(t, critest.Config{Around: synctest.Test, Start: func(t *testing.T) critest.Subject {
		// Without AnyImage, since there are cases about an image that is not there.
		// Without Streams, so the cases about sessions are skipped.
		rt, err := fake.New(fake.Config{Programs: critest.Programs, Exec: critest.Programs})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		return critest.Subject{Runtime: wrapped{rt}, Images: rt, Image: "busybox", Hardened: true}
	}})
}

// A wrapper of a runtime, tested around the fake: in memory and in virtual time,
// which takes a second or two.
func Example_wrapper() {
	_ = testWrapper
}
