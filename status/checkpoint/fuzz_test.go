package checkpoint

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzLoad checks that for every file Load either returns ErrCorrupt and sets the file aside, or
// returns a record that survives a Save and a Load unchanged.
func FuzzLoad(f *testing.F) {
	good, _, err := encode(uid, aRecord(1))
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:100])
	f.Add([]byte(`{"version":1,"uid":"` + string(uid) + `","crc32c":0}`))
	f.Add([]byte(`{"version":1,"uid":"` + string(uid) + `","crc32c":1207093566,"record":{}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, path := newStore(t, nil)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		r, err := s.Load(uid)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.NoFileExists(t, path)
			return
		}
		if err := again(t, s).Save(uid, r); err != nil {
			require.True(t, errors.Is(err, ErrTooLarge), err)
			return
		}
		got, err := again(t, s).Load(uid)
		require.NoError(t, err)
		require.Equal(t, normal(r), normal(got))
	})
}

// FuzzRecord is FuzzLoad behind the checksum: for every record with a valid checksum, decode
// returns a record or ErrCorrupt.
func FuzzRecord(f *testing.F) {
	_, record, err := encode(uid, aRecord(1))
	require.NoError(f, err)
	f.Add(record)
	f.Add([]byte(`{"status":{"conditions":[{"lastTransitionTime":"x"}]}}`))
	f.Add([]byte(`{"probes":[null]}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		if len(record) > maxSize/8 {
			return // its text may grow beyond the limit
		}
		r, got, err := decode(whole(record), uid)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.Equal(t, record, got)
		data, _, err := encode(uid, r)
		require.NoError(t, err)
		second, _, err := decode(data, uid)
		require.NoError(t, err)
		require.Equal(t, normal(r), normal(second))
	})
}
