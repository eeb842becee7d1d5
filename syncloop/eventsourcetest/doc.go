// Package eventsourcetest tests sources for a syncloop.Loop: that they keep the
// contract of syncloop.EventSource, and those of pods that of syncloop.PodSource.
// Whoever writes a source of his own runs it with a test of a few lines, as the
// Example shows.
//
// Each case is a subtest named after the rule that it tests, with a source of its
// own, in a synctest bubble: minutes of waiting take no time. A source that needs
// the world outside, such as inotify, is tested in real time with RealTime.
//
// # What a source has to do
//
//   - Run blocks until its context is done, also one that is done already, and has
//     then joined every goroutine that it started. What it returns when it was
//     stopped is nil or context.Canceled.
//   - Whatever becomes dirty while it runs is reported by an event that comes
//     afterwards, to the emit of the present Run; many things may be one event, and
//     events too many do no harm, but a stream of them does. What became dirty
//     before Run, or between two, is reported as well.
//   - Events have a known Kind and name their pod or source.
//   - A failure ends Run with an error, and the next Run goes on. nil means that
//     nothing will ever come again.
//
// emit neither blocks nor panics, so nobody has to be ready for that.
//
// # What a source of pods has to do
//
// RunPods plays sets of pods and reads them as the Loop does. Once the source has
// said that a set may have changed, the newest one is there, whole. Before the first
// set there is none, and an empty one is one. In a set the first pod of a name or
// UID counts. Reading changes nothing; pods are copied on the way in, and what was
// read never changes. The source is ready from the first Handled after a set on.
package eventsourcetest
