// Package interop drives locks of other libraries, so that stores can be tested and measured against the real thing: unmodified
// releases of ShedLock and Redisson, in a Java program (test/java) that obeys over its standard input; of redis-py and
// node-redlock, in programs of their languages (peers) that obey alike; and of redsync and redislock.
//
// Its tests have this project and those libraries contend for the same names on the same servers. They need a JDK, Maven,
// Python, Node.js, pip and npm and, the first time, the network, to fetch the libraries.
package interop
