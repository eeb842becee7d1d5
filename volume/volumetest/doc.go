// Package volumetest tests volume plugins, and has one in memory for tests of whatever
// mounts volumes.
//
//	func TestPlugin(t *testing.T) {
//		volumetest.Run(t, func(t testing.TB) volumetest.Subject {
//			layout := volume.Layout{Root: t.TempDir()}
//			return volumetest.Subject{
//				Layout: layout,
//				Open:   func() (volume.Plugin, error) { return mine.New(mine.Config{Layout: layout}) },
//				Spec: func(pod *v1.Pod, name string) *volume.Spec {
//					return &volume.Spec{Name: name, Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
//				},
//			}
//		})
//	}
//
// Run calls the plugin as a manager.Manager does whose agent is killed now and then: in
// every order, on what the one before has left. Each rule of the contract is a subtest.
//
// Plugin and Shared are plugins that make folders and do what a test tells them: fail,
// hang, be slow, depend on objects.
package volumetest
