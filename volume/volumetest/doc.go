// Package volumetest provides a conformance suite for volume plugins, and plugins for tests of
// their callers.
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
// Run calls the plugin in the same way as a manager.Manager whose agent is killed repeatedly:
// in every order, on the remains of the previous call. Each rule of the contract is a subtest.
// It writes files, folders and links into volumes as containers do, and detects a Mount or Unmount
// that deletes data of users: see Subject.Data. The contexts of a rule's calls end after a minute;
// Run waits for a plugin that ignores them. One rule calls the plugin concurrently.
//
// Plugin and Shared are plugins that create folders. A test can make them fail, block, take
// time, or depend on objects. Code that only reads a volume's path needs no plugin in its tests.
package volumetest
