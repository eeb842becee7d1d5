package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestCodeLines(t *testing.T) {
	for _, test := range []struct {
		name, source string
		want         int
	}{
		{"package", "package p\n", 1},
		{"blank lines and comments", "// Package p.\npackage p\n\n/* a\nb */\n\nvar x = 1 // one\n", 2},
		{"raw string with a blank line", "package p\n\nvar x = `a\n\n// b`\n", 3},
		{"gofmt splits the line", "package p\nfunc f() { if x { y() } }\n", 6},
		{"closing brackets", "package p\n\nfunc f() {\n\ta(\n\t\tb,\n\t)\n}\n", 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := codeLines([]byte(test.source))
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestRoomOf(t *testing.T) {
	for file, want := range map[string]string{
		"doc.go":                         "(root)",
		"cri/pods/sync.go":               "cri",
		"cri/streams/spdy.go":            "cri/streams",
		"examples/kubelet/main.go":       "examples/kubelet",
		"examples/edge/main.go":          "examples, rest",
		"internal/testpods/testpods.go":  "internal",
		"examples/tools/counts/lines.go": "examples, rest",
	} {
		require.Equal(t, want, roomOf(file), file)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
