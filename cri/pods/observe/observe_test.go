package observe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/observe"
)

func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]observe.Config{
		"Runtime":     {RuntimeName: "fake"},
		"RuntimeName": {Runtime: struct{ cri.RuntimeService }{}},
	} {
		_, err := observe.New(cfg)
		require.ErrorContains(t, err, "Config."+field+" is required")
	}
}
