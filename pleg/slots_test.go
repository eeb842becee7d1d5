package pleg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The limit holds for the inspections that begin.
func TestLimitHolds(t *testing.T) {
	s := newScript(t)
	s.c.cfg.MaxInspections = 16
	s.listed(s.start(listAll))
	for i := range 40 {
		s.c.want(s.c.get(uidOf(i)), ask{request: true, due: s.now})
	}
	for range 16 {
		s.start(inspectOne)
	}
	s.idle()
	require.Equal(t, 16, s.c.health().Inspecting)
	s.inspected(s.c.slots[3], &PodStatus{UID: s.c.slots[3].uid})
	s.start(inspectOne)
	s.idle()
}
