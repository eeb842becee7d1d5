package streams

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStatus(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		code     int
		err      string
	}{
		"nothing":      {"", 0, ErrLost.Error()},
		"garbage":      {"oh\nno", 0, `the session's status "oh no"`},
		"success":      {`{"status":"Success"}`, 0, ""},
		"exit code":    {`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"42"}]}}`, 42, ""},
		"no exit code": {`{"status":"Failure","reason":"NonZeroExitCode","message":"m"}`, 0, "NonZeroExitCode: m"},
		"bad code":     {`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}`, 0, "exit code"},
		"failure":      {`{"status":"Failure","reason":"InternalError","message":"no such thing","code":500}`, 0, "500 InternalError: no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			code, err := parseStatus([]byte(c.document))
			require.Equal(t, c.code, code)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"42"}]}}`))
	f.Add([]byte(`{"status":"Success"}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, document []byte) {
		code, err := parseStatus(document)
		if err != nil && code != 0 {
			t.Fatalf("%q: both code %d and error %v", document, code, err)
		}
		var failed *StatusError
		if errors.As(err, &failed) {
			_ = failed.Error()
		}
	})
}
