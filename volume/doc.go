// Package volume has the vocabulary of volume plugins: Plugin and its optional abilities,
// Spec, Mount, Layout and the marks of errors. Package volume/manager calls the plugins:
//
//	m, err := manager.New(manager.Config{
//		Plugins: []volume.Plugin{mine},
//		Layout:  volume.Layout{Root: "/var/lib/kubelet"},
//	})
//
// A plugin has Name, Supports, Mount and Unmount. Mount is called repeatedly and creates
// missing parts. Unmount receives names only: the agent may have started after the mount, and
// may have no Spec. Further abilities are interfaces of their own: Stager, Remounter,
// Dependent, Attachable, Expander, Identifier, LabelMounter. Package volumetest tests a plugin
// against these contracts. An agent without plugins of its own needs only Layout and Object.
//
// Examples that run: ExampleLayout and ExampleAtField in example_test.go.
package volume
