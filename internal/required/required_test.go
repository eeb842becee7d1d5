package required

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestField(t *testing.T) {
	var reader *strings.Reader
	var typed io.Reader = reader
	for name, value := range map[string]any{"nil": nil, "typed nil": typed, "text": "", "func": (func())(nil), "map": map[string]int(nil), "chan": (chan int)(nil)} {
		require.EqualError(t, Field("pkg: Config.X", value), "pkg: Config.X is required", name)
	}
	for name, value := range map[string]any{"value": struct{}{}, "text": "x", "pointer": &struct{}{}, "func": func() {}, "map": map[string]int{}} {
		require.NoError(t, Field("pkg: Config.X", value), name)
	}
}
