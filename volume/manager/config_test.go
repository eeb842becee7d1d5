package manager_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/volumetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNew(t *testing.T) {
	var missing *volumetest.Plugin
	good := &volumetest.Plugin{}
	layout := volume.Layout{Root: "/var/lib/kubelet"}
	for want, cfg := range map[string]manager.Config{
		"manager: Config.Plugins is required":                                     {Layout: layout},
		"manager: Config.Layout.Root is required":                                 {Plugins: []volume.Plugin{good}},
		`manager: Config.Layout.Root is not absolute: "x"`:                        {Plugins: []volume.Plugin{good}, Layout: volume.Layout{Root: "x"}},
		"manager: Config.Plugins[1] is required":                                  {Plugins: []volume.Plugin{good, missing}, Layout: layout},
		`manager: Config.Plugins[1]: "example.com/memory" is in the list already`: {Plugins: []volume.Plugin{good, good}, Layout: layout},
		"manager: Config.Complete is required: pods share volumes of example.com/memory": {
			Plugins: []volume.Plugin{&volumetest.Shared{Plugin: good}}, Layout: layout,
		},
		"manager: Config.OperationTimeout is negative: -1s": {Plugins: []volume.Plugin{good}, Layout: layout, OperationTimeout: -time.Second},
		"manager: Config.ShutdownTimeout is negative: -1s":  {Plugins: []volume.Plugin{good}, Layout: layout, ShutdownTimeout: -time.Second},
	} {
		_, err := manager.New(cfg)
		require.EqualError(t, err, want)
	}
	_, err := manager.New(manager.Config{Plugins: []volume.Plugin{&volumetest.Plugin{PluginName: ".."}}, Layout: layout})
	require.ErrorContains(t, err, "Config.Plugins[0]")
}
