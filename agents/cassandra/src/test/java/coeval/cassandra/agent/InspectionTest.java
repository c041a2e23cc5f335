package coeval.cassandra.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class InspectionTest {
    @Test
    void findsBothMethods() {
        assertEquals(List.of(), Inspection.missing(InspectionTest.class.getClassLoader()));
    }

    @Test
    void namesTheClassesThatAreNotThere() {
        List<String> missing = Inspection.missing(ClassLoader.getPlatformClassLoader());
        assertEquals(2, missing.size());
        assertTrue(missing.get(0).contains("StorageProxy$LocalReadRunnable is not on"));
        assertTrue(missing.get(1).contains("ReadCommandVerbHandler is not on"));
    }

    @Test
    void namesTheMethodsThatAreNotThere() {
        List<String> missing =
                Inspection.missing(new Renaming(InspectionTest.class.getClassLoader()));
        assertEquals(
                List.of(
                        "the class org.apache.cassandra.db.ReadCommandVerbHandler has no such"
                                + " doVerb"),
                missing);
    }
}
