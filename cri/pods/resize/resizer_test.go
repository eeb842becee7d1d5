package resize

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/request"
)

func TestNewRefuses(t *testing.T) {
	runtime, requests := struct{ cri.ResourceUpdater }{}, &request.Builder{}
	for text, cfg := range map[string]Config{
		"Config.Runtime is missing":    {Requests: requests},
		"Config.Requests is missing":   {Runtime: runtime},
		"Config.StepGrace is negative": {Runtime: runtime, Requests: requests, StepGrace: -time.Second},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, text)
	}
}

// Without a store nothing is recorded, and nothing is known.
func TestRecordWithoutStore(t *testing.T) {
	r, err := Load(nil, "1")
	require.NoError(t, err)
	require.Nil(t, r.Actuated())
	require.NoError(t, r.NoteContainer(nil, nil))
	require.NoError(t, r.NotePod(nil))
}
