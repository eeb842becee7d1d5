package csi_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/usage"
)

// A Meter takes the usage of CSI volumes from their driver and walks other volumes only.
func TestUsage(t *testing.T) {
	w := newFixture(t)
	m := w.args(persistent(files), "1")
	w.mounted(m)
	meter := usage.New(usage.Config{Ask: w.Usage})
	_, err := meter.Measure(t.Context(), m.Dir, 0)
	require.ErrorIs(t, err, csi.ErrNoUsage)
	w.fake.can.Stats = true
	u, err := meter.Measure(t.Context(), m.Dir, 0)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), u.Measured, time.Minute)
	same, err := meter.Measure(t.Context(), m.Dir+"/mount", 0)
	require.NoError(t, err)
	u.Measured, same.Measured = time.Time{}, time.Time{}
	require.Equal(t, usage.Usage{Capacity: 100, Bytes: 1}, u)
	require.Equal(t, u, same, "the path of the files is accepted")
	for _, other := range []string{m.Dir + "/mount/mount", m.Dir + "/other", "/mount"} {
		_, ok, err := w.Usage(t.Context(), other)
		require.NoError(t, err)
		require.False(t, ok, other)
	}
	errUsage := errors.New("asleep")
	w.fail("Stats", errUsage)
	_, err = meter.Measure(t.Context(), m.Dir, 0)
	require.ErrorIs(t, err, errUsage)
	_, known := meter.Known(m.Dir)
	require.True(t, known)
	other := t.TempDir()
	u, err = meter.Measure(t.Context(), other, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, u.Files)
}
