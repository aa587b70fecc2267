package dev.soloist.peer;

import java.util.LinkedHashMap;
import java.util.Map;

/** The options after the provider on the command line, each as {@code name=value}. Each must be asked for. */
final class Options {
    private final Map<String, String> values = new LinkedHashMap<>();

    Options(String[] args) {
        for (int i = 1; i < args.length; i++) {
            int at = args[i].indexOf('=');
            if (at <= 0) {
                throw new IllegalArgumentException("argument " + i + ": options are name=value");
            }
            values.put(args[i].substring(0, at), args[i].substring(at + 1));
        }
    }

    String get(String name, String otherwise) {
        String value = values.remove(name);
        return value == null ? otherwise : value;
    }

    String need(String name) {
        String value = values.remove(name);
        if (value == null) {
            throw new IllegalArgumentException("the option " + name + " is missing");
        }
        return value;
    }

    /** Refuses options that nobody has asked for. */
    void done() {
        if (!values.isEmpty()) {
            throw new IllegalArgumentException("options that this provider has not: " + values.keySet());
        }
    }
}
